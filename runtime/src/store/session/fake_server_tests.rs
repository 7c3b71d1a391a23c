//! A fake server of sessions, which loses requests and answers, and a client of it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;

use super::outage::Outage;
use super::service::{Answer, Entered, EnteredAll, First, Node, Service, Timeout, Trouble, Turn};
use super::store::SessionStore;
use crate::base::clock::Clock;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::store::options::Options;
use crate::store::{
    Failure, Give, GiveKind, LockStore, Op, OpId, Reply, Request, Retry, StoreEvent, Take,
};

pub(super) const TTL: Duration = Duration::from_secs(30);
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// A ttl that needs a session of the longer class.
pub(super) const LONG: Duration = Duration::from_secs(600);
pub(super) const FENCE: Fence = Fence::new(1);

/// A fake server with one directory, the queue for one lock. Its first node has the lock.
#[derive(Default)]
pub(super) struct Server {
    pub(super) nodes: Mutex<VecDeque<Token>>,
    changed: Notify,
    /// Not zero if the next acquire must be lost before it arrives.
    lost: Mutex<u32>,
    /// Number of removals to lose before they arrive.
    pub(super) lost_removals: Mutex<u32>,
    /// True if removals, and requests to keep a node, arrive but get no answer.
    pub(super) unanswered: Mutex<bool>,
    /// True if the session is over.
    over: Mutex<bool>,
    /// Name of the node that another process takes away by force, and the number of the session to
    /// notify. Without a number, any one session is notified.
    revoked: Mutex<Option<(Option<usize>, Token)>>,
    /// The name of all nodes, if set.
    pub(super) same_name: Mutex<Option<Token>>,
    /// Number of opened sessions.
    opened: Mutex<usize>,
    /// True if no session with a long time-out can be opened.
    pub(super) hangs: Mutex<bool>,
    /// Time that the opening of a session takes.
    pub(super) opens_in: Mutex<Duration>,
    /// True if a kept node, which has another lease, does not count as present.
    pub(super) moved: Mutex<bool>,
    /// Number of attempts to reach the server that neither succeed nor fail.
    pub(super) attempts_in_vain: Mutex<u32>,
    pub(super) outage: Outage,
}

impl Server {
    pub(super) fn nodes(&self) -> Vec<Token> {
        self.nodes.lock().unwrap().iter().copied().collect()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut VecDeque<Token>)) {
        change(&mut self.nodes.lock().unwrap());
        self.changed.notify_waiters();
    }

    pub(super) fn lose(&self) {
        *self.lost.lock().unwrap() = 1;
    }

    pub(super) fn ends(&self) {
        *self.over.lock().unwrap() = true;
        self.changed.notify_waiters();
    }

    pub(super) fn revoke(&self, session: Option<usize>, name: Token) {
        *self.revoked.lock().unwrap() = Some((session, name));
        self.changed.notify_waiters();
    }

    pub(super) fn leaves(&self, name: Token) {
        self.change(|nodes| nodes.retain(|node| *node != name));
    }
}

fn first(nodes: &VecDeque<Token>) -> First {
    let (fence, others) = (FENCE, 1 < nodes.len());
    First { fence, others }
}

async fn no_answer(patience: Duration) -> Trouble {
    tokio::time::sleep(patience).await;
    let text = "no answer came in time".to_owned();
    Trouble::Failed(Failure::unavailable("timeout", text, Retry::Later, true))
}

impl Service for Arc<Server> {
    /// The session's number.
    type Session = usize;

    const NAME: &'static str = "made-up";

    fn classes(&self) -> Vec<Timeout> {
        [60, 3_600].map(Duration::from_secs).map(Timeout).into()
    }

    fn outage(&self) -> &Outage {
        &self.outage
    }

    async fn reach_again(&self) -> bool {
        let mut in_vain = self.attempts_in_vain.lock().unwrap();
        let answers = *in_vain == 0;
        *in_vain = in_vain.saturating_sub(1);
        answers
    }

    async fn open(
        &self,
        timeout: Timeout,
        patience: Duration,
    ) -> Result<(usize, Timeout), Failure> {
        let hangs = *self.hangs.lock().unwrap() && LONG <= timeout.0;
        let takes = *self.opens_in.lock().unwrap();
        tokio::time::sleep(takes.min(patience)).await;
        if hangs || patience < takes {
            tokio::time::sleep(patience.saturating_sub(takes)).await;
            let text = "no session was opened in time".to_owned();
            return Err(Failure::unavailable("timeout", text, Retry::Later, false));
        }
        let mut opened = self.opened.lock().unwrap();
        *opened += 1;
        Ok((*opened, timeout))
    }

    async fn heartbeat(&self, _: &usize, _: Duration) -> Answer<()> {
        Ok(())
    }

    fn name(&self, _: &usize, _: &FullKey, _: u64) -> Option<Token> {
        *self.same_name.lock().unwrap()
    }

    async fn ended(
        &self,
        session: &usize,
        revoked: impl Fn(Token, Fence) + Send + Sync,
    ) -> Answer<()> {
        loop {
            let changed = self.changed.notified();
            if *self.over.lock().unwrap() {
                return Err(Trouble::Ended);
            }
            let name = {
                let mut wanted = self.revoked.lock().unwrap();
                wanted.take_if(|(of, _)| of.is_none_or(|of| of == *session))
            };
            if let Some((_, name)) = name {
                revoked(name, FENCE);
            }
            changed.await;
        }
    }

    async fn close(&self, _: &usize, _: Duration) -> Answer<()> {
        Ok(())
    }

    async fn enter(
        &self,
        _: &usize,
        node: &Node,
        queue: bool,
        _: &'static str,
        patience: Duration,
    ) -> Answer<Entered> {
        if std::mem::take(&mut *self.lost.lock().unwrap()) > 0 {
            return Err(no_answer(patience).await);
        }
        let mut nodes = self.nodes.lock().unwrap();
        if !nodes.contains(&node.name) {
            if !queue && !nodes.is_empty() {
                return Ok(Entered::Held(None));
            }
            nodes.push_back(node.name);
        }
        if nodes.front() == Some(&node.name) {
            return Ok(Entered::First(first(&nodes)));
        }
        let (fence, owner) = (FENCE, None);
        Ok(Entered::Behind { fence, owner })
    }

    async fn enter_all(
        &self,
        _: &usize,
        _: &[Node],
        _: &'static str,
        _: Duration,
    ) -> Answer<EnteredAll> {
        Ok(EnteredAll::Apart)
    }

    async fn present(&self, _: &usize, nodes: &[(Node, Fence)], _: Duration) -> Answer<Vec<bool>> {
        Ok(vec![!*self.moved.lock().unwrap(); nodes.len()])
    }

    async fn remove(&self, _: &usize, node: &Node, patience: Duration) -> Answer<bool> {
        let lost = {
            let mut lost = self.lost_removals.lock().unwrap();
            let is_lost = 0 < *lost;
            *lost = lost.saturating_sub(1);
            is_lost
        };
        if lost {
            return Err(no_answer(patience).await);
        }
        let was_there = self.nodes().contains(&node.name);
        self.leaves(node.name);
        if *self.unanswered.lock().unwrap() {
            return Err(no_answer(patience).await);
        }
        Ok(was_there)
    }

    async fn keep(
        &self,
        _: &usize,
        node: &Node,
        _: Fence,
        _: Duration,
        patience: Duration,
    ) -> Answer<bool> {
        if *self.unanswered.lock().unwrap() {
            return Err(no_answer(patience).await);
        }
        Ok(self.nodes().contains(&node.name))
    }

    async fn turn(&self, _: &usize, node: &Node) -> Answer<Turn> {
        loop {
            let changed = self.changed.notified();
            let turn = {
                let nodes = self.nodes.lock().unwrap();
                if nodes.front() == Some(&node.name) {
                    Some(Turn::First(first(&nodes)))
                } else {
                    (!nodes.contains(&node.name)).then_some(Turn::Gone)
                }
            };
            if let Some(turn) = turn {
                return Ok(turn);
            }
            changed.await;
        }
    }
}

pub(super) struct Client {
    pub(super) store: SessionStore<Arc<Server>>,
    pub(super) last: u64,
}

impl Client {
    pub(super) fn of(server: &Arc<Server>) -> Self {
        let (sender, events) = unbounded_channel();
        let options = Options {
            clock: Clock::tokio(),
            ..Options::new(PATIENCE)
        };
        let store = SessionStore::new(Arc::clone(server), &options, sender, events);
        Self { store, last: 0 }
    }

    /// Requests the lock with this token. Queues if the lock is held.
    pub(super) async fn asks(&mut self, token: Token) -> Result<Reply, Failure> {
        self.begins_to_ask(token);
        self.answer().await
    }

    /// Requests the lock again for a waiting token. The request is lost, and meanwhile the holder
    /// leaves, so the token's node becomes the first.
    pub(super) async fn asks_in_vain(&mut self, server: &Server, token: Token, holder: Token) {
        server.lose();
        self.begins_to_ask(token);
        tokio::time::sleep(PATIENCE / 2).await;
        server.leaves(holder);
        self.is_notified_of_its_turn().await;
        assert!(self.answer().await.is_err(), "the answer was lost");
    }

    pub(super) fn begins_to_ask(&mut self, token: Token) {
        self.begins_to_ask_for(token, TTL);
    }

    pub(super) fn begins_to_ask_for(&mut self, token: Token, ttl: Duration) {
        self.begins_to_take("k", token, ttl);
    }

    pub(super) fn begins_to_take(&mut self, key: &str, token: Token, ttl: Duration) {
        self.submit(Op::Take(Take {
            queue: true,
            ..Take::lock(FullKey::from(key), token, ttl, "")
        }));
    }

    pub(super) fn begins_to_release(&mut self, token: Token, keep: Option<Duration>) {
        let give = Give::now(FullKey::from("k"), token, GiveKind::Lock);
        self.submit(Op::Give(Give { keep, ..give }));
    }

    pub(super) fn submit(&mut self, op: Op) {
        self.last += 1;
        let (id, patience) = (OpId(self.last), PATIENCE);
        self.store.submit(&mut vec![Request { id, op, patience }]);
    }

    /// Returns the answer to the last request.
    pub(super) async fn answer(&mut self) -> Result<Reply, Failure> {
        match self.event().await {
            StoreEvent::Reply(OpId(replied), reply) if replied == self.last => reply,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn is_notified_of_its_turn(&mut self) {
        let event = tokio::time::timeout(TTL, self.event()).await;
        assert!(matches!(event, Ok(StoreEvent::Turn(_))), "{event:?}");
    }

    pub(super) async fn event(&mut self) -> StoreEvent {
        poll_fn(|cx| self.store.poll_event(cx)).await
    }
}
