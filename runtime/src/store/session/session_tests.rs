//! Tests of sessions and waiting nodes (places), on a fake server that loses requests and answers,
//! with a paused clock.

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
    CLAIM, Failure, Give, GiveKind, LockStore, Op, OpId, Renewal, Reply, Request, Retry,
    StoreEvent, Take,
};

const TTL: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(1);
/// A ttl that needs a session of the longer class.
const LONG: Duration = Duration::from_secs(600);
const FENCE: Fence = Fence::new(1);

/// A fake server with one directory, the queue for one lock. Its first node has the lock.
#[derive(Default)]
struct Server {
    nodes: Mutex<VecDeque<Token>>,
    changed: Notify,
    /// Not zero if the next acquire must be lost before it arrives.
    lost: Mutex<u32>,
    /// Number of removals to lose before they arrive.
    lost_removals: Mutex<u32>,
    /// True if removals, and requests to keep a node, arrive but get no answer.
    unanswered: Mutex<bool>,
    /// True if the session is over.
    over: Mutex<bool>,
    /// Name of the node that another process takes away by force, and the number of the session to
    /// notify. Without a number, any one session is notified.
    revoked: Mutex<Option<(Option<usize>, Token)>>,
    /// The name of all nodes, if set.
    same_name: Mutex<Option<Token>>,
    /// Number of opened sessions.
    opened: Mutex<usize>,
    /// True if no session with a long time-out can be opened.
    hangs: Mutex<bool>,
    /// Time that the opening of a session takes.
    opens_in: Mutex<Duration>,
    /// True if a kept node, which has another lease, does not count as present.
    moved: Mutex<bool>,
    /// Number of attempts to reach the server that neither succeed nor fail.
    attempts_in_vain: Mutex<u32>,
    outage: Outage,
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

    fn ends(&self) {
        *self.over.lock().unwrap() = true;
        self.changed.notify_waiters();
    }

    fn revoke(&self, session: Option<usize>, name: Token) {
        *self.revoked.lock().unwrap() = Some((session, name));
        self.changed.notify_waiters();
    }

    fn leaves(&self, name: Token) {
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

    /// Requests the lock with this token. Queues if the lock is held.
    async fn asks(&mut self, token: Token) -> Result<Reply, Failure> {
        self.begins_to_ask(token);
        self.answer().await
    }

    /// Requests the lock again for a waiting token. The request is lost, and meanwhile the holder
    /// leaves, so the token's node becomes the first.
    async fn asks_in_vain(&mut self, server: &Server, token: Token, holder: Token) {
        server.lose();
        self.begins_to_ask(token);
        tokio::time::sleep(PATIENCE / 2).await;
        server.leaves(holder);
        self.is_notified_of_its_turn().await;
        assert!(self.answer().await.is_err(), "the answer was lost");
    }

    fn begins_to_ask(&mut self, token: Token) {
        self.begins_to_ask_for(token, TTL);
    }

    fn begins_to_ask_for(&mut self, token: Token, ttl: Duration) {
        self.begins_to_take("k", token, ttl);
    }

    fn begins_to_take(&mut self, key: &str, token: Token, ttl: Duration) {
        self.submit(Op::Take(Take {
            queue: true,
            ..Take::lock(FullKey::from(key), token, ttl, "")
        }));
    }

    fn begins_to_release(&mut self, token: Token, keep: Option<Duration>) {
        let give = Give::now(FullKey::from("k"), token, GiveKind::Lock);
        self.submit(Op::Give(Give { keep, ..give }));
    }

    fn submit(&mut self, op: Op) {
        self.last += 1;
        let (id, patience) = (OpId(self.last), PATIENCE);
        self.store.submit(&mut vec![Request { id, op, patience }]);
    }

    /// Returns the answer to the last request.
    async fn answer(&mut self) -> Result<Reply, Failure> {
        match self.event().await {
            StoreEvent::Reply(OpId(replied), reply) if replied == self.last => reply,
            other => panic!("{other:?}"),
        }
    }

    async fn is_notified_of_its_turn(&mut self) {
        let event = tokio::time::timeout(TTL, self.event()).await;
        assert!(matches!(event, Ok(StoreEvent::Turn(_))), "{event:?}");
    }

    async fn event(&mut self) -> StoreEvent {
        poll_fn(|cx| self.store.poll_event(cx)).await
    }
}

const HOLDER: Token = Token::fixed(1);
const CALL: Token = Token::fixed(3);

/// A server on which [`HOLDER`] has the lock, and a client that waits for it with [`CALL`].
async fn one_waits() -> (Arc<Server>, Client) {
    let server = Arc::<Server>::default();
    server.change(|nodes| nodes.push_back(HOLDER));
    let mut client = Client::of(&server);
    let queued = client.asks(CALL).await;
    assert!(
        matches!(queued, Ok(Reply::Held { queued: true, .. })),
        "{queued:?}"
    );
    (server, client)
}

/// Fails if a call sends a request for a lock that the server has already given to this process.
#[tokio::test(start_paused = true)]
async fn a_granted_turn_is_used_without_a_request() {
    let (server, mut client) = one_waits().await;
    server.leaves(HOLDER);
    client.is_notified_of_its_turn().await;
    server.lose();
    let taken = client.asks(CALL).await;
    let fence = Some(FENCE);
    assert!(
        matches!(taken, Ok(Reply::Acquired { fence: reported, .. }) if reported == fence),
        "{taken:?}"
    );
}

/// Fails if the end of a session is reported only after the next heartbeat. Until that heartbeat,
/// another process could already have the lock.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_is_reported_at_once() {
    let server = Arc::<Server>::default();
    let mut client = Client::of(&server);
    let taken = client.asks(Token::fixed(3)).await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
    // After this pause, the session listens for its end.
    tokio::time::sleep(CLAIM).await;
    server.ends();
    let reported = tokio::time::timeout(TTL / 2, client.event()).await;
    assert!(matches!(reported, Ok(StoreEvent::Lost(_))), "{reported:?}");
}

/// Fails if a call gets the lock with a node that another process is taking away by force. That
/// process would then remove the node without notifying the call.
#[tokio::test(start_paused = true)]
async fn a_revoked_place_is_not_granted() {
    let (server, mut client) = one_waits().await;
    let place = server.nodes()[1];
    // After this pause, the session listens for revocations.
    tokio::time::sleep(CLAIM).await;
    server.leaves(HOLDER);
    client.is_notified_of_its_turn().await;
    *server.lost_removals.lock().unwrap() = 1;
    server.revoke(None, place);
    client.is_notified_of_its_turn().await;
    let asked = client.asks(CALL).await;
    assert!(matches!(asked, Ok(Reply::Held { .. })), "{asked:?}");
    client.is_notified_of_its_turn().await;
    let taken = client.asks(CALL).await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
    assert!(!server.nodes().contains(&place), "it was removed");
}

/// A call releases its node, which has become the first. The server removes the node, but the
/// answer is lost. Fails if the next call then gets the lock with the removed node.
#[tokio::test(start_paused = true)]
async fn a_released_place_is_not_granted() {
    let (server, mut client) = one_waits().await;
    client.asks_in_vain(&server, CALL, HOLDER).await;
    *server.unanswered.lock().unwrap() = true;
    client.begins_to_release(CALL, None);
    client.begins_to_ask(Token::fixed(4));
    let asked = loop {
        match client.event().await {
            StoreEvent::Reply(OpId(replied), reply) if replied == client.last => break reply,
            _ => {}
        }
    };
    assert!(matches!(asked, Ok(Reply::Acquired { .. })), "{asked:?}");
    assert_eq!(server.nodes().len(), 1, "it was granted without a node");
}

/// Holders in two sessions have nodes with the same name. Fails if the revocation of a node of one
/// session reaches a holder of the other session.
#[tokio::test(start_paused = true)]
async fn a_revocation_applies_to_a_node_of_one_session() {
    const BEFORE: u128 = 300;
    let server = Arc::<Server>::default();
    let name = Token::fixed(1);
    *server.same_name.lock().unwrap() = Some(name);
    let mut client = Client::of(&server);
    for before in 0..BEFORE {
        let taken = client.asks(Token::fixed(100 + before)).await;
        assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
        // The node is gone on the server, but the holder has not released its lock.
        server.leaves(name);
    }
    let holder = Token::fixed(2);
    client.begins_to_ask_for(holder, TTL * 10);
    let taken = client.answer().await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
    // After this pause, the session listens for revocations.
    tokio::time::sleep(CLAIM).await;
    server.revoke(Some(2), name);
    let reported = tokio::time::timeout(TTL / 2, client.event()).await;
    let Ok(StoreEvent::Revoked { lease, .. }) = reported else {
        panic!("{reported:?}");
    };
    assert_eq!(lease, holder.half(), "another holder was notified");
}

/// A place (the waiting node of a process) has become the first. The answer to its call was lost,
/// and the call did not repeat its request within `CLAIM`, so the place was given up. Then the call
/// requests the lock again, with a new node. Fails if this node is not used when it becomes the
/// first.
#[tokio::test(start_paused = true)]
async fn a_recreated_place_gets_its_turn() {
    let (server, mut client) = one_waits().await;
    let behind = Token::fixed(2);
    server.change(|nodes| nodes.push_back(behind));
    client.asks_in_vain(&server, CALL, HOLDER).await;
    tokio::time::sleep(CLAIM * 2).await;
    assert_eq!(server.nodes(), [behind], "its place was given up");
    let queued = client.asks(CALL).await;
    assert!(
        matches!(queued, Ok(Reply::Held { queued: true, .. })),
        "{queued:?}"
    );
    server.leaves(behind);
    client.is_notified_of_its_turn().await;
    let taken = client.asks(CALL).await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
}

/// A place was given up, but the removal of its node is lost and will be retried. Fails if a call
/// gets the lock with this node, because the retried removal would then take the lock away.
#[tokio::test(start_paused = true)]
async fn an_abandoned_place_is_not_granted() {
    let (server, mut client) = one_waits().await;
    let place = server.nodes()[1];
    *server.lost_removals.lock().unwrap() = 3;
    client.asks_in_vain(&server, CALL, HOLDER).await;
    tokio::time::sleep(CLAIM).await;
    assert_eq!(server.nodes(), [place], "its removal is lost");
    let mut taken = client.asks(CALL).await;
    while !matches!(taken, Ok(Reply::Acquired { .. })) {
        client.is_notified_of_its_turn().await;
        taken = client.asks(CALL).await;
    }
    let held = server.nodes();
    tokio::time::sleep(TTL / 2).await;
    assert_eq!(server.nodes(), held, "the lock was taken away");
}

/// The server keeps a released lock, but the answer is lost. Fails if the node is removed before
/// the end of the cooldown, at the end of its lease, or is never removed.
#[tokio::test(start_paused = true)]
async fn a_kept_lock_with_a_lost_answer_stays() {
    const KEEP: Duration = Duration::from_secs(90);
    let server = Arc::<Server>::default();
    let mut client = Client::of(&server);
    let taken = client.asks(CALL).await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
    *server.unanswered.lock().unwrap() = true;
    client.begins_to_release(CALL, Some(KEEP));
    assert!(client.answer().await.is_err(), "the answer was lost");
    *server.unanswered.lock().unwrap() = false;
    let held = server.nodes();
    tokio::time::sleep(KEEP.saturating_sub(PATIENCE * 2)).await;
    assert_eq!(server.nodes(), held, "it was removed too early");
    tokio::time::sleep(PATIENCE * 5).await;
    assert!(server.nodes().is_empty(), "it is kept for too long");
}

/// Fails if a node that a release has moved to another lease is removed by a renewal under way.
#[tokio::test(start_paused = true)]
async fn a_renewal_removes_no_kept_node() {
    let server = Arc::<Server>::default();
    let mut client = Client::of(&server);
    let taken = client.asks(CALL).await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
    *server.unanswered.lock().unwrap() = true;
    client.begins_to_release(CALL, Some(TTL));
    assert!(client.answer().await.is_err(), "the answer was lost");
    *server.moved.lock().unwrap() = true;
    client.submit(Op::Keep {
        renewals: vec![Renewal {
            key: FullKey::from("k"),
            token: CALL,
            ttl: TTL,
        }],
        shares: false,
    });
    let renewed = client.answer().await;
    assert!(
        matches!(&renewed, Ok(Reply::Renewed(kept)) if kept[..] == [false]),
        "{renewed:?}"
    );
    tokio::time::sleep(PATIENCE * 5).await;
    assert_eq!(server.nodes().len(), 1, "it is not kept");
}

/// No session with a long time-out can be opened, and requests for many keys wait for one. Fails if
/// the release of a lock in another session waits for more than one of these requests.
#[tokio::test(start_paused = true)]
async fn a_release_waits_for_no_queue_of_openings() {
    let server = Arc::<Server>::default();
    let mut client = Client::of(&server);
    let taken = client.asks(CALL).await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
    *server.hangs.lock().unwrap() = true;
    for number in 0..10 {
        client.begins_to_take(&format!("other{number}"), Token::fixed(100 + number), LONG);
    }
    client.begins_to_ask_for(Token::fixed(4), LONG);
    client.begins_to_release(CALL, None);
    let asked = client.last;
    let released = tokio::time::timeout(PATIENCE * 2, async {
        loop {
            if let StoreEvent::Reply(OpId(replied), reply) = client.event().await
                && replied == asked
            {
                return reply;
            }
        }
    });
    let released = released.await.expect("after one opening");
    assert!(
        matches!(released, Ok(Reply::Released { .. })),
        "{released:?}"
    );
}

/// An opening hangs, and another request waits for it. Fails if that request then has too little
/// time to open a session itself, although the server answers again.
#[tokio::test(start_paused = true)]
async fn an_opening_after_a_failed_one_can_succeed() {
    const SOON: Duration = Duration::from_millis(20);
    let server = Arc::<Server>::default();
    let mut client = Client::of(&server);
    *server.hangs.lock().unwrap() = true;
    client.begins_to_take("other", Token::fixed(100), LONG);
    tokio::time::sleep(SOON).await;
    client.begins_to_ask_for(CALL, LONG);
    tokio::time::sleep(SOON).await;
    *server.hangs.lock().unwrap() = false;
    *server.opens_in.lock().unwrap() = 5 * SOON;
    let failed = client.event().await;
    assert!(
        matches!(failed, StoreEvent::Reply(OpId(1), Err(_))),
        "{failed:?}"
    );
    let taken = client.answer().await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
}

/// A request finds no server, and the next attempts get no result. Then the server answers. Fails
/// if the store counts as away until its next request.
#[tokio::test(start_paused = true)]
async fn a_lost_server_is_reached_again_without_a_request() {
    for attempts_in_vain in [0, 3, 20] {
        let server = Arc::<Server>::default();
        *server.attempts_in_vain.lock().unwrap() = attempts_in_vain;
        let mut client = Client::of(&server);
        server.outage.lost();
        assert!(client.store.is_away());
        let event = tokio::time::timeout(TTL, client.event()).await;
        assert!(matches!(event, Ok(StoreEvent::Connected)), "{event:?}");
        assert!(!client.store.is_away(), "it is reached again");
    }
}
