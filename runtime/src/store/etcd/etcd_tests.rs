//! Scenarios on a real cluster that need the internals of the store. Tests in the folder `tests`
//! run them through `selftest/probe.rs`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;

use super::address::Address;
use super::entering::making;
use super::epoch::Epoch;
use super::gathering::{Asked, together};
use super::messages::DeleteRequest;
use super::requests::is_empty;
use super::service::Etcd;
use crate::base::full_key::FullKey;
use crate::store::options::Options;
use crate::store::session::service::{Entered, First, Node, Service, Timeout};

impl Etcd {
    /// Lets a request that creates a node arrive after the removal of that node.
    ///
    /// # Panics
    ///
    /// Panics if the request creates the node, or if the cluster does not answer.
    pub(crate) async fn seals(address: Address, options: &Options) {
        let (sender, _events) = unbounded_channel();
        let etcd = Self::new(address, options, sender);
        a_late_request_makes_nothing(&etcd).await;
    }

    /// Gives up a request whose transaction then fails because its epoch is outdated.
    ///
    /// # Panics
    ///
    /// Panics if the request is sent again, or if the cluster does not answer.
    pub(crate) async fn gives_up(address: Address, options: &Options) {
        let (sender, _events) = unbounded_channel();
        let etcd = Self::new(address, options, sender);
        an_abandoned_request_is_not_sent_again(&etcd).await;
    }

    /// Watches a missing key. The lookup after the start of the watch must find that the key is
    /// gone.
    ///
    /// # Panics
    ///
    /// Panics if the watch waits for a deletion of the key, or if the cluster does not answer.
    pub(crate) async fn sees_the_gone(address: Address, options: &Options) {
        const LONG: Duration = Duration::from_secs(30);
        let (sender, _events) = unbounded_channel();
        let etcd = Self::new(address, options, sender);
        let key = b"never-made".to_vec();
        let watching = etcd
            .client
            .ask(|connection| async move { connection.deleted(key, 0, LONG, ()).await });
        let seen = tokio::time::timeout(LONG, watching).await;
        seen.expect("the key is not waited for")
            .expect("the cluster answers");
    }
}

async fn a_late_request_makes_nothing(etcd: &Etcd) {
    let patience = Duration::from_secs(5);
    let opened = etcd.open(Timeout(patience), patience).await;
    let (session, _) = opened.expect("a session opens");
    let node = |number| {
        let key = FullKey::from("lock:late");
        Node {
            name: session.name(&key, number),
            key,
            number,
        }
    };
    let (node, next) = (node(1), node(2));
    let (key, directory) = (
        etcd.names.node(session.lease, &node),
        etcd.names.directory(&node.key),
    );
    let late = making(
        is_empty(&directory),
        &key,
        &directory,
        "late",
        session.lease,
    );
    let late = session.epoch.unsealed(vec![late]);
    session.doubts().insert(node.name, session.epoch.now());
    let removed = etcd.unmake(&session, &node, patience).await;
    assert!(!removed.expect("the server answers"), "there was no node");
    let asking = etcd.client.txn(late, patience);
    let answer = asking.await.expect("the server answers");
    assert!(!answer.succeeded, "the late request has made a node");
    let next = etcd.make(&session, &next, false, "next", patience).await;
    let next = next.expect("the server answers");
    assert!(matches!(next, Entered::First(_)), "{next:?}");
    let closed = etcd.close(&session, patience).await;
    closed.expect("the server answers");
}

async fn an_abandoned_request_is_not_sent_again(etcd: &Etcd) {
    let patience = Duration::from_secs(5);
    let opened = etcd.open(Timeout(patience), patience).await;
    let (session, _) = opened.expect("a session opens");
    let key = FullKey::from("lock:given-up");
    let node = Node {
        name: session.name(&key, 1),
        key,
        number: 1,
    };
    let made = etcd.make(&session, &node, false, "holder", patience).await;
    let Ok(Entered::First(First { fence, .. })) = made else {
        panic!("{made:?}");
    };
    let (answer, receiver) = oneshot::channel();
    let deletion = DeleteRequest {
        key: etcd.names.node(session.lease, &node).into(),
        range_end: Vec::new(),
    };
    let asked = Asked {
        directory: etcd.names.directory(&node.key),
        operation: deletion.into(),
        patience,
        answer,
    };
    // The epoch 1 is older than the session's key, so the first transaction fails. Only a second
    // one, with the new epoch, could delete the node.
    let epoch = Epoch::new(session.key.clone(), session.lease, 1);
    let carrying = together(Arc::clone(&etcd.client), Arc::new(epoch), vec![asked]);
    let gives_up = async {
        tokio::task::yield_now().await;
        drop(receiver);
    };
    futures_util::future::join(carrying, gives_up).await;
    let present = etcd.present(&session, &[(node, fence)], patience).await;
    assert_eq!(
        present.expect("the server answers"),
        [true],
        "it was sent again"
    );
    let closed = etcd.close(&session, patience).await;
    closed.expect("the server answers");
}
