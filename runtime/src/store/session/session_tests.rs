//! What becomes of places when a server loses answers, on a made-up server and a paused clock.

use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;

use super::service::{Answer, Entered, EnteredAll, Node, Service, Timeout, Trouble, Turn};
use super::store::SessionStore;
use crate::base::clock::Clock;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::store::options::Options;
use crate::store::{CLAIM, Failure, LockStore, Op, OpId, Reply, Request, Retry, StoreEvent};

const TTL: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(1);

/// One directory. The first node has the lock.
#[derive(Default)]
struct Server {
    nodes: Mutex<VecDeque<Token>>,
    changed: Notify,
    /// How many requests for a lock are lost before they arrive.
    lost: Mutex<u32>,
    /// How many removals are lost.
    lost_removals: Mutex<u32>,
}

impl Server {
    fn nodes(&self) -> Vec<Token> {
        self.nodes.lock().unwrap().iter().copied().collect()
    }

    fn change(&self, change: impl FnOnce(&mut VecDeque<Token>)) {
        change(&mut self.nodes.lock().unwrap());
        self.changed.notify_waiters();
    }

    fn lose(&self) {
        *self.lost.lock().unwrap() = 1;
    }

    fn leaves(&self, name: Token) {
        self.change(|nodes| nodes.retain(|node| *node != name));
    }
}

async fn no_answer(patience: Duration) -> Trouble {
    tokio::time::sleep(patience).await;
    let text = "no answer came in time".to_owned();
    Trouble::Failed(Failure::unavailable("timeout", text, Retry::Later, true))
}

impl Service for Arc<Server> {
    type Session = ();

    const NAME: &'static str = "made-up";

    fn classes(&self) -> Vec<Timeout> {
        vec![Timeout(Duration::from_secs(3_600))]
    }

    fn is_away(&self) -> bool {
        false
    }

    async fn open(&self, timeout: Timeout, _: Duration) -> Result<((), Timeout), Failure> {
        Ok(((), timeout))
    }

    async fn heartbeat(&self, (): &(), _: Duration) -> Answer<()> {
        Ok(())
    }

    async fn ended(&self, (): &(), _: impl Fn(Token, Fence) + Send + Sync) -> Answer<()> {
        pending().await
    }

    async fn close(&self, (): &(), _: Duration) -> Answer<()> {
        Ok(())
    }

    async fn enter(
        &self,
        (): &(),
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
            let (fence, others) = (Fence::new(1), 1 < nodes.len());
            return Ok(Entered::First { fence, others });
        }
        Ok(Entered::Behind(None))
    }

    async fn enter_all(
        &self,
        (): &(),
        _: &[Node],
        _: &'static str,
        _: Duration,
    ) -> Answer<EnteredAll> {
        Ok(EnteredAll::Apart)
    }

    async fn present(&self, (): &(), nodes: &[(Node, Fence)], _: Duration) -> Answer<Vec<bool>> {
        Ok(vec![true; nodes.len()])
    }

    async fn remove(&self, (): &(), node: &Node, patience: Duration) -> Answer<bool> {
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
        Ok(was_there)
    }

    async fn keep(&self, (): &(), _: &Node, _: Fence, _: Duration, _: Duration) -> Answer<bool> {
        Ok(false)
    }

    async fn turn(&self, (): &(), node: &Node) -> Answer<Turn> {
        loop {
            let changed = self.changed.notified();
            let nodes = self.nodes();
            if !nodes.contains(&node.name) {
                return Ok(Turn::Gone);
            }
            if nodes.first() == Some(&node.name) {
                return Ok(Turn::First);
            }
            changed.await;
        }
    }
}

struct Client {
    store: SessionStore<Arc<Server>>,
    last: u64,
}

impl Client {
    fn of(server: &Arc<Server>) -> Self {
        let (sender, events) = unbounded_channel();
        let options = Options {
            clock: Clock::tokio(),
            ..Options::new(PATIENCE)
        };
        let store = SessionStore::new(Arc::clone(server), &options, sender, events);
        Self { store, last: 0 }
    }

    /// Queues for the lock with this token.
    async fn asks(&mut self, token: Token) -> Result<Reply, Failure> {
        self.last += 1;
        let op = Op::Acquire {
            key: FullKey::from("k"),
            token,
            ttl: TTL,
            function: "",
            queue: true,
            reserved_fences: 0,
        };
        let (id, patience) = (OpId(self.last), PATIENCE);
        self.store.submit(&mut vec![Request { id, op, patience }]);
        match self.event().await {
            StoreEvent::Reply(replied, reply) if replied == id => reply,
            other => panic!("{other:?}"),
        }
    }

    async fn is_told_of_its_turn(&mut self) {
        let event = tokio::time::timeout(TTL, self.event()).await;
        assert!(matches!(event, Ok(StoreEvent::Turn(_))), "{event:?}");
    }

    async fn event(&mut self) -> StoreEvent {
        poll_fn(|cx| self.store.poll_event(cx)).await
    }
}

/// Fails if a place that its process no longer knows stays in the queue. The answer to a call whose
/// turn it was is lost for longer than a claim, so the place is given up. Then the call asks again.
#[tokio::test(start_paused = true)]
async fn a_place_that_is_made_anew_has_its_turn() {
    let server = Arc::<Server>::default();
    let (holder, behind) = (Token::fixed(1), Token::fixed(2));
    server.change(|nodes| nodes.push_back(holder));
    let mut client = Client::of(&server);
    let call = Token::fixed(3);
    let queued = client.asks(call).await;
    assert!(
        matches!(queued, Ok(Reply::Held { queued: true, .. })),
        "{queued:?}"
    );
    server.change(|nodes| nodes.push_back(behind));
    server.lose();
    server.leaves(holder);
    client.is_told_of_its_turn().await;
    assert!(client.asks(call).await.is_err(), "the answer was lost");
    tokio::time::sleep(CLAIM * 2).await;
    assert_eq!(server.nodes(), [behind], "its place was given up");
    let queued = client.asks(call).await;
    assert!(
        matches!(queued, Ok(Reply::Held { queued: true, .. })),
        "{queued:?}"
    );
    server.leaves(behind);
    client.is_told_of_its_turn().await;
    let taken = client.asks(call).await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
}

/// Fails if a place that is given up is granted while it is being removed: the removal would take
/// the lock away from its holder.
#[tokio::test(start_paused = true)]
async fn a_place_that_is_given_up_is_not_granted() {
    let server = Arc::<Server>::default();
    let holder = Token::fixed(1);
    server.change(|nodes| nodes.push_back(holder));
    let mut client = Client::of(&server);
    let call = Token::fixed(3);
    let queued = client.asks(call).await;
    assert!(matches!(queued, Ok(Reply::Held { .. })), "{queued:?}");
    let place = server.nodes()[1];
    server.lose();
    *server.lost_removals.lock().unwrap() = 3;
    server.leaves(holder);
    client.is_told_of_its_turn().await;
    assert!(client.asks(call).await.is_err(), "the answer was lost");
    tokio::time::sleep(CLAIM).await;
    assert_eq!(server.nodes(), [place], "its removal is lost");
    let mut taken = client.asks(call).await;
    while !matches!(taken, Ok(Reply::Acquired { .. })) {
        client.is_told_of_its_turn().await;
        taken = client.asks(call).await;
    }
    let held = server.nodes();
    tokio::time::sleep(TTL / 2).await;
    assert_eq!(server.nodes(), held, "the lock was taken away");
}
