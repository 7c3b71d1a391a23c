//! A client of the conformance suite: sends requests to a store, and finds the reply to each
//! request.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::play;
use super::promises::Promises;
use crate::base::full_key::{FullKey, KeySet};
use crate::base::token::{Nonce, Token};
use crate::fence::Fence;
use crate::store::{
    Give, GiveKind, LockStore, Op, OpId, Renewal, Reply, Request, Socket, StoreEvent, Take,
};

/// Placeholder for the fence of a store without fences.
const NO_FENCE: Fence = Fence::new(0);

pub(super) fn scene(name: &str) -> (FullKey, Token, Token) {
    (
        format!("lock:conf:{}", play::name(name)).into(),
        Token::random(Nonce::new()),
        Token::random(Nonce::new()),
    )
}

pub(super) fn acquire(key: &FullKey, token: Token, ttl: Duration) -> Op {
    Op::Take(taking(key, token, ttl))
}

pub(super) fn taking(key: &FullKey, token: Token, ttl: Duration) -> Take {
    Take::lock(key.clone(), token, ttl, "conformance")
}

pub(super) fn renew(renewals: Vec<Renewal>) -> Op {
    Op::Keep {
        renewals,
        shares: false,
    }
}

pub(super) fn release(key: &FullKey, token: Token, after: Vec<OpId>) -> Op {
    Op::Give(Give {
        after,
        ..Give::now(key.clone(), token, GiveKind::Lock)
    })
}

/// A client of the store. Keeps the replies that a test has not read yet.
pub(super) struct Client {
    pub(super) promises: Promises,
    pub(super) store: Box<dyn LockStore>,
    /// Sockets on which answers arrive.
    sockets: Vec<Arc<dyn Socket>>,
    last: u64,
    /// Time of the client's last request.
    asked: Instant,
    /// Longest time that an answer to this client has taken.
    pub(super) slowest: Duration,
    pub(super) early: Vec<(OpId, Reply)>,
    /// Keys whose turn has come: the store reported that the lock is reserved for this client.
    pub(super) turns: KeySet,
    /// Keys that other processes queue for, as reported by the store.
    pub(super) wanted: KeySet,
    /// Leases that the store reported as taken away by force.
    pub(super) revoked: Vec<(FullKey, u64)>,
}

impl Client {
    #[cfg(feature = "__test")]
    pub(super) fn new(store: Box<dyn LockStore>) -> Self {
        Self::of(Promises::ONE, store)
    }

    pub(super) fn of(promises: Promises, store: Box<dyn LockStore>) -> Self {
        Self {
            promises,
            store,
            sockets: Vec::new(),
            last: 0,
            asked: Instant::now(),
            slowest: Duration::ZERO,
            early: Vec::new(),
            turns: KeySet::default(),
            wanted: KeySet::default(),
            revoked: Vec::new(),
        }
    }

    /// True if a failed test proves nothing, because it was delayed for more than a third of the
    /// short ttl. The delay is the slowest answer to this client, or `longest`, the longest
    /// possible suspension of the test's thread. On a quorum, a twentieth of the ttl is enough,
    /// because the nodes have no more time for their answers.
    pub(super) fn was_held_up(&self, longest: Duration) -> bool {
        let part = if self.promises.is_quorum() { 20 } else { 3 };
        self.promises.short / part < self.slowest.max(longest)
    }

    /// If `listeners` is true, the store no longer reads its sockets, but leaves this to listeners.
    /// The suite starts no listener, so answers stay unread, as if all listeners were late. If
    /// `listeners` is false, the store reads its sockets again.
    pub(super) fn leave_to_listeners(&mut self, listeners: bool) {
        if let Some(sockets) = self.store.sockets() {
            self.sockets = sockets;
        }
        for socket in &self.sockets {
            socket.leave_to_listener(listeners);
        }
    }

    pub(super) fn next_id(&mut self) -> OpId {
        self.last += 1;
        OpId(self.last)
    }

    pub(super) fn submit(&mut self, id: OpId, op: Op) {
        let patience = Duration::from_secs(5);
        self.asked = Instant::now();
        self.store.submit(&mut vec![Request { id, op, patience }]);
    }

    /// Submits all requests at once and returns the replies, in the order of `ops`.
    pub(super) async fn ask_all(&mut self, ops: Vec<Op>) -> Vec<Reply> {
        let patience = Duration::from_secs(5);
        let mut requests: Vec<_> = ops
            .into_iter()
            .map(|op| Request {
                id: self.next_id(),
                op,
                patience,
            })
            .collect();
        let ids: Vec<_> = requests.iter().map(|request| request.id).collect();
        self.asked = Instant::now();
        self.store.submit(&mut requests);
        let mut replies = Vec::new();
        for id in ids {
            replies.push(self.reply(id).await);
        }
        replies
    }

    pub(super) async fn reply(&mut self, wanted: OpId) -> Reply {
        loop {
            if let Some(at) = self.early.iter().position(|(id, _)| *id == wanted) {
                self.slowest = self.slowest.max(self.asked.elapsed());
                return self.early.swap_remove(at).1;
            }
            self.listen().await;
        }
    }

    /// Waits for one event of the store, which must come within 10 s, and records it.
    pub(super) async fn listen(&mut self) {
        let event = poll_fn(|cx| self.store.poll_event(cx));
        let event = tokio::time::timeout(Duration::from_secs(10), event);
        match event.await.expect("the store sends an event within 10 s") {
            StoreEvent::Reply(id, Ok(reply)) => self.early.push((id, reply)),
            StoreEvent::Reply(_, Err(failure)) => {
                self.slowest = self.slowest.max(self.asked.elapsed());
                panic!("{}", failure.error);
            }
            StoreEvent::Turn(key) => drop(self.turns.insert(key)),
            StoreEvent::Wanted(key) => drop(self.wanted.insert(key)),
            StoreEvent::Revoked { key, lease } => self.revoked.push((key, lease)),
            StoreEvent::Connected | StoreEvent::Away => {}
            #[cfg(feature = "__session")]
            StoreEvent::Lost(locks) => panic!("{locks:?} are lost"),
        }
    }

    pub(super) async fn ask(&mut self, op: Op) -> Reply {
        let id = self.next_id();
        self.submit(id, op);
        self.reply(id).await
    }

    pub(super) async fn acquire(
        &mut self,
        key: &FullKey,
        token: Token,
        ttl: Duration,
    ) -> Option<Fence> {
        match self.ask(acquire(key, token, ttl)).await {
            Reply::Acquired { fence, .. } => {
                assert_eq!(fence.is_some(), self.promises.fences, "{fence:?}");
                Some(fence.unwrap_or(NO_FENCE))
            }
            Reply::Held { .. } => None,
            other => panic!("an acquire was answered by {other:?}"),
        }
    }

    pub(super) async fn release(&mut self, key: &FullKey, token: Token) -> bool {
        match self.ask(release(key, token, Vec::new())).await {
            Reply::Released { found, .. } => found,
            other => panic!("a release was answered by {other:?}"),
        }
    }

    pub(super) async fn renew(&mut self, keys: &[(&FullKey, Token)], ttl: Duration) -> Vec<bool> {
        let renewals = keys
            .iter()
            .map(|(key, token)| Renewal {
                key: FullKey::clone(key),
                token: *token,
                ttl,
            })
            .collect();
        match self.ask(renew(renewals)).await {
            Reply::Renewed(kept) => kept,
            other => panic!("a renewal was answered by {other:?}"),
        }
    }
}
