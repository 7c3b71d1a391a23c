//! What every store must do, as one suite that runs against each of them.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use crate::base::full_key::{FullKey, KeySet};
use crate::base::token::{Nonce, Token};
use crate::fence::Fence;
use crate::store::{LockStore, Op, OpId, Renewal, Reply, Request, StoreEvent};

mod mixed;
mod queue;
mod shares;
mod together;

pub(crate) use self::queue::run as run_queue;
#[cfg(feature = "__test")]
pub(crate) use self::shares::one_share_is_refused;

const TTL: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(150);

/// What stands for the fence of a store that has none.
const NO_FENCE: Fence = Fence::new(0);

/// What a store promises, and how fast it can be expected to keep it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Promises {
    /// Whether each acquisition has a fence.
    pub(crate) fences: bool,
    /// Whether several keys are taken in one step, where they share a slot.
    pub(crate) together: bool,
    /// A ttl that does not run out during a scene.
    pub(crate) ttl: Duration,
    /// One that does.
    pub(crate) short: Duration,
}

impl Promises {
    /// Of a store with one server at most.
    pub(crate) const ONE: Self = Self {
        fences: true,
        together: true,
        ttl: TTL,
        short: SHORT,
    };
    /// Of a quorum: its nodes have a twentieth of the ttl to answer, and do not vote before they are older than it.
    #[cfg(feature = "__test")]
    pub(crate) const QUORUM: Self = Self {
        fences: false,
        together: false,
        ttl: Duration::from_secs(10),
        short: Duration::from_secs(2),
    };

    /// Whether what a client was answered holds on a majority of nodes only: requests of two clients may meet in another order on the
    /// others.
    fn is_quorum(self) -> bool {
        !self.fences
    }

    /// For how long at most a lock may be said to be held that had `before` to last and has `now`: a node beyond the quorum may not have heard
    /// of that yet.
    fn longest(self, before: Duration, now: Duration) -> Duration {
        if self.is_quorum() {
            before.max(now)
        } else {
            now
        }
    }
}

/// Runs the suite. `connect` gives one more client of the same store.
///
/// # Panics
///
/// Where the store does not conform.
pub(crate) async fn run(promises: Promises, mut connect: impl FnMut() -> Box<dyn LockStore>) {
    let mut one = Client::of(promises, connect());
    let mut two = Client::of(promises, connect());
    exclusion(&mut one, &mut two).await;
    idempotence(&mut one, &mut two).await;
    ownership(&mut one, &mut two).await;
    expiry(&mut one, &mut two).await;
    renewal(&mut one, &mut two).await;
    renewal_never_creates(&mut one, &mut two).await;
    if promises.fences {
        fences_grow(&mut one, &mut two).await;
    }
    if promises.together {
        together::run(&mut one, &mut two).await;
    } else {
        together::refused(&mut one).await;
    }
    order(&mut one, &mut two).await;
    batches(&mut one).await;
    sent_behind_answers(&mut one, &mut two).await;
    sent_with_the_answer(&mut one, &mut two).await;
    kept(&mut one, &mut two).await;
    kept_from_its_token(&mut one, &mut two).await;
    mixed::run(&mut one, &mut two).await;
}

async fn exclusion(one: &mut Client, two: &mut Client) {
    let Promises { ttl, .. } = one.promises;
    let (key, mine, other) = scene("exclusion");
    assert!(one.acquire(&key, mine, ttl).await.is_some());
    let Reply::Held { left, .. } = two.ask(acquire(&key, other, ttl)).await else {
        panic!("a held key was given to another token");
    };
    assert!(left.is_some_and(|left| left <= ttl && left > ttl / 2));
    assert!(one.release(&key, mine).await);
    assert!(two.acquire(&key, other, ttl).await.is_some());
    assert!(two.release(&key, other).await);
}

async fn idempotence(one: &mut Client, two: &mut Client) {
    let Promises { ttl, short, .. } = one.promises;
    let (key, mine, other) = scene("idempotence");
    let first = one.acquire(&key, mine, short).await.unwrap();
    let again = two.acquire(&key, mine, ttl).await;
    assert_eq!(again, Some(first), "the same token got another fence");
    tokio::time::sleep(short * 2).await;
    // A node beyond the quorum may have carried the two out the other way round and have forgotten the key.
    let late = two.acquire(&key, other, ttl).await;
    assert_eq!(late, None, "the second acquire did not extend the ttl");
    let released = one.release(&key, mine).await;
    assert!(released || one.promises.is_quorum());
}

async fn ownership(one: &mut Client, two: &mut Client) {
    let Promises { ttl, short, .. } = one.promises;
    let (key, mine, other) = scene("ownership");
    one.acquire(&key, mine, ttl).await.unwrap();
    assert!(!two.release(&key, other).await);
    assert_eq!(two.renew(&[(&key, other)], short).await, [false]);
    assert!(
        one.release(&key, mine).await,
        "another token's release or renewal had an effect"
    );
    assert!(!one.release(&key, mine).await, "released twice");
}

async fn expiry(one: &mut Client, two: &mut Client) {
    let Promises { ttl, short, .. } = one.promises;
    let (key, mine, other) = scene("expiry");
    one.acquire(&key, mine, short).await.unwrap();
    tokio::time::sleep(short * 2).await;
    two.acquire(&key, other, ttl).await.unwrap();
    assert!(!one.release(&key, mine).await);
    assert!(two.release(&key, other).await);
}

async fn renewal(one: &mut Client, two: &mut Client) {
    let Promises { ttl, short, .. } = one.promises;
    let (key, mine, other) = scene("renewal");
    one.acquire(&key, mine, short).await.unwrap();
    assert_eq!(one.renew(&[(&key, mine)], ttl).await, [true]);
    tokio::time::sleep(short * 2).await;
    assert!(two.acquire(&key, other, ttl).await.is_none());
    assert!(one.release(&key, mine).await);
}

async fn renewal_never_creates(one: &mut Client, two: &mut Client) {
    let Promises { ttl, .. } = one.promises;
    let (key, mine, other) = scene("renewal-never-creates");
    assert_eq!(one.renew(&[(&key, mine)], ttl).await, [false]);
    assert!(two.acquire(&key, other, ttl).await.is_some());
    assert!(two.release(&key, other).await);
}

async fn fences_grow(one: &mut Client, two: &mut Client) {
    let Promises { ttl, .. } = one.promises;
    let (key, _, _) = scene("fences");
    let mut last: Option<Fence> = None;
    for round in 0..200 {
        let client = if round % 2 == 0 { &mut *one } else { &mut *two };
        let token = Token::random(Nonce::new());
        let fence = client.acquire(&key, token, ttl).await.unwrap();
        assert!(last < Some(fence), "{last:?} was followed by {fence:?}");
        last = Some(fence);
        assert!(client.release(&key, token).await);
    }
}

/// A release that keeps the key for a while leaves nobody in, and no longer than that.
async fn kept(one: &mut Client, two: &mut Client) {
    let Promises { ttl, short, .. } = one.promises;
    let (key, mine, other) = scene("kept");
    let keep = |key: &FullKey, token: Token| Op::Release {
        key: key.clone(),
        token,
        keep: Some(short),
        makes_way: false,
        after: Vec::new(),
    };
    one.acquire(&key, mine, ttl).await.unwrap();
    let by_another = two.ask(keep(&key, other)).await;
    assert!(matches!(by_another, Reply::Released { found: false, .. }));
    let kept = one.ask(keep(&key, mine)).await;
    assert!(matches!(kept, Reply::Released { found: true, .. }));
    let Reply::Held { left, .. } = two.ask(acquire(&key, other, ttl)).await else {
        panic!("a kept key was given to another token");
    };
    let longest = one.promises.longest(ttl, short);
    assert!(left.is_some_and(|left| left <= longest), "{left:?}");
    tokio::time::sleep(short * 2).await;
    assert!(two.acquire(&key, other, ttl).await.is_some());
    assert!(two.release(&key, other).await);
}

/// What was on its way for a token when its lock was kept does not find it any more.
async fn kept_from_its_token(one: &mut Client, two: &mut Client) {
    let Promises { ttl, short, .. } = one.promises;
    let (key, mine, other) = scene("kept-from");
    let keep = Op::Release {
        key: key.clone(),
        token: mine,
        keep: Some(short),
        makes_way: false,
        after: Vec::new(),
    };
    one.acquire(&key, mine, ttl).await.unwrap();
    let kept = one.ask(keep.clone()).await;
    assert!(matches!(kept, Reply::Released { found: true, .. }));
    assert_eq!(two.renew(&[(&key, mine)], ttl).await, [false], "renewed");
    assert_eq!(two.acquire(&key, mine, ttl).await, None, "taken again");
    // As after a lost reply, and as of an acquire that was given up.
    let again = one.ask(keep).await;
    assert!(matches!(again, Reply::Released { found: false, .. }));
    // A quorum cannot tell what the acquire before it, which was refused, may have left on some node.
    let released = two.release(&key, mine).await;
    assert!(!released || one.promises.is_quorum(), "it is kept");
    let held = two.ask(acquire(&key, other, ttl)).await;
    assert!(matches!(held, Reply::Held { .. }), "{held:?}");
    tokio::time::sleep(short * 2).await;
    assert!(two.acquire(&key, other, ttl).await.is_some(), "lengthened");
    assert!(two.release(&key, other).await);
}

/// A release that was submitted behind an acquire undoes it.
async fn order(one: &mut Client, two: &mut Client) {
    let Promises { ttl, .. } = one.promises;
    let (key, mine, other) = scene("order");
    for _ in 0..100 {
        let (first, second) = (one.next_id(), one.next_id());
        one.submit(first, acquire(&key, mine, ttl));
        one.submit(second, release(&key, mine, vec![first]));
        one.reply(first).await;
        let Reply::Released { found, ordered } = one.reply(second).await else {
            panic!("a release was answered by something else");
        };
        assert!(found && ordered);
    }
    assert!(two.acquire(&key, other, ttl).await.is_some());
    assert!(two.release(&key, other).await);
}

async fn batches(one: &mut Client) {
    let Promises { ttl, .. } = one.promises;
    let keys: Vec<FullKey> = (0..450)
        .map(|n| format!("lock:conf:batch:{n}").into())
        .collect();
    let token = Token::random(Nonce::new());
    for key in &keys {
        one.acquire(key, token, ttl).await.unwrap();
    }
    let mut expected = vec![true; keys.len()];
    for lost in [0, 199, 200, 449] {
        assert!(one.release(&keys[lost], token).await);
        expected[lost] = false;
    }
    let renewals: Vec<_> = keys.iter().map(|key| (key, token)).collect();
    assert_eq!(one.renew(&renewals, ttl).await, expected);
    for key in &keys {
        one.release(key, token).await;
    }
}

/// What is submitted is sent with the next poll, though that returns something that was answered earlier.
async fn sent_behind_answers(one: &mut Client, two: &mut Client) {
    let Promises { ttl, .. } = one.promises;
    // The first two on one node of a cluster.
    let scenes = ["{behind}:one", "{behind}:other", "behind:late"].map(scene);
    let [first, second, late] = scenes.map(|(key, mine, _)| (key, mine));
    let ids = [one.next_id(), one.next_id()];
    let patience = Duration::from_secs(5);
    let acquires = [&first, &second].map(|(key, mine)| acquire(key, *mine, ttl));
    let requests = ids.into_iter().zip(acquires);
    let requests = requests.map(|(id, op)| Request { id, op, patience });
    one.store.submit(&mut requests.collect());
    one.reply(ids[0]).await;
    let last = one.next_id();
    one.submit(last, acquire(&late.0, late.1, ttl));
    let polled = poll_fn(|cx| Poll::Ready(one.store.poll_event(cx))).await;
    if let Poll::Ready(StoreEvent::Reply(id, Ok(reply))) = polled {
        one.early.push((id, reply));
    }
    sent(two, &late.0, late.1).await;
    for id in [ids[1], last] {
        assert!(matches!(one.reply(id).await, Reply::Acquired { .. }));
    }
    for (key, mine) in [first, second, late] {
        assert!(one.release(&key, mine).await);
    }
}

/// What had to wait for an answer is sent by the poll that returns that.
async fn sent_with_the_answer(one: &mut Client, two: &mut Client) {
    let scenes = ["first", "next"].map(|name| scene(&format!("{{waits}}:{name}")));
    let [first, next] = scenes.map(|(key, mine, _)| (key, mine));
    let ids = [one.next_id(), one.next_id()];
    for (id, (key, mine)) in ids.into_iter().zip([&first, &next]) {
        one.submit(id, acquire(key, *mine, one.promises.ttl));
    }
    one.reply(ids[0]).await;
    sent(two, &next.0, next.1).await;
    assert!(matches!(one.reply(ids[1]).await, Reply::Acquired { .. }));
    for (key, mine) in [first, next] {
        assert!(one.release(&key, mine).await);
    }
}

/// What is sent elsewhere is sent on by the poll that returns an answer that came with that: of keys of one node as `one` knows it, the
/// second has moved.
///
/// # Panics
///
/// Where it lies behind the answer.
#[cfg(feature = "__test")]
pub(crate) async fn sent_on(one: Box<dyn LockStore>, two: Box<dyn LockStore>, keys: [&str; 2]) {
    let (mut one, mut two) = (Client::new(one), Client::new(two));
    let token = Token::random(Nonce::new());
    let [stays, moved] = keys.map(FullKey::from);
    let ids = [one.next_id(), one.next_id()];
    let acquires = [&stays, &moved].map(|key| acquire(key, token, TTL));
    let requests = ids.into_iter().zip(acquires);
    let patience = Duration::from_secs(5);
    let requests = requests.map(|(id, op)| Request { id, op, patience });
    one.store.submit(&mut requests.collect());
    one.reply(ids[0]).await;
    sent(&mut two, &moved, token).await;
    assert!(matches!(one.reply(ids[1]).await, Reply::Acquired { .. }));
}

/// What a node gave in vain is given back by the poll that returns the answer: `given` says whether one has given the lock and has it still.
/// The others say that it is held; they do not both answer before `decides`.
///
/// # Panics
///
/// Where that lies behind the answer.
#[cfg(feature = "__test")]
pub(crate) async fn given_back(
    store: Box<dyn LockStore>,
    key: &str,
    given: impl Fn() -> bool,
    decides: impl FnOnce(),
) {
    let mut one = Client::of(Promises::QUORUM, store);
    let id = one.next_id();
    let token = Token::random(Nonce::new());
    one.submit(id, acquire(&key.into(), token, one.promises.ttl));
    let mut is_given = false;
    while !is_given {
        is_given = given();
        // When the time is over, what had come before has been heard.
        let early = tokio::time::timeout(Duration::from_millis(100), one.reply(id)).await;
        assert!(early.is_err(), "it has been decided: {early:?}");
    }
    decides();
    assert!(matches!(one.reply(id).await, Reply::Held { .. }));
    let back = async {
        while given() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let back = tokio::time::timeout(Duration::from_secs(5), back).await;
    assert!(back.is_ok(), "it lies behind what was answered");
}

/// Waits until the server has given `token` the lock, whose client is not polled meanwhile.
async fn sent(client: &mut Client, key: &FullKey, token: Token) {
    let ttl = client.promises.ttl;
    let seen = async { while client.renew(&[(key, token)], ttl).await != [true] {} };
    let seen = tokio::time::timeout(Duration::from_secs(5), seen).await;
    assert!(seen.is_ok(), "{key:?} lies behind what was answered");
}

fn scene(name: &str) -> (FullKey, Token, Token) {
    (
        format!("lock:conf:{name}").into(),
        Token::random(Nonce::new()),
        Token::random(Nonce::new()),
    )
}

fn acquire(key: &FullKey, token: Token, ttl: Duration) -> Op {
    Op::Acquire {
        key: key.clone(),
        token,
        ttl,
        function: "conformance",
        queue: false,
        reserved_fences: 0,
    }
}

fn release(key: &FullKey, token: Token, after: Vec<OpId>) -> Op {
    Op::Release {
        keep: None,
        makes_way: false,
        key: key.clone(),
        token,
        after,
    }
}

/// A store with its replies sorted by request.
struct Client {
    promises: Promises,
    store: Box<dyn LockStore>,
    last: u64,
    early: Vec<(OpId, Reply)>,
    /// Keys of which the store said that they were handed to this client.
    turns: KeySet,
    /// Keys of which the store said that others queue for them.
    wanted: KeySet,
}

impl Client {
    fn new(store: Box<dyn LockStore>) -> Self {
        Self::of(Promises::ONE, store)
    }

    fn of(promises: Promises, store: Box<dyn LockStore>) -> Self {
        Self {
            promises,
            store,
            last: 0,
            early: Vec::new(),
            turns: KeySet::default(),
            wanted: KeySet::default(),
        }
    }

    fn next_id(&mut self) -> OpId {
        self.last += 1;
        OpId(self.last)
    }

    fn submit(&mut self, id: OpId, op: Op) {
        let patience = Duration::from_secs(5);
        self.store.submit(&mut vec![Request { id, op, patience }]);
    }

    /// Submits all at once and takes the replies, in the order of `ops`.
    async fn ask_all(&mut self, ops: Vec<Op>) -> Vec<Reply> {
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
        self.store.submit(&mut requests);
        let mut replies = Vec::new();
        for id in ids {
            replies.push(self.reply(id).await);
        }
        replies
    }

    async fn reply(&mut self, wanted: OpId) -> Reply {
        loop {
            if let Some(at) = self.early.iter().position(|(id, _)| *id == wanted) {
                return self.early.swap_remove(at).1;
            }
            self.listen().await;
        }
    }

    /// Takes one event, which must come soon.
    async fn listen(&mut self) {
        let event = poll_fn(|cx| self.store.poll_event(cx));
        let event = tokio::time::timeout(Duration::from_secs(10), event);
        match event.await.expect("the store says something within 10 s") {
            StoreEvent::Reply(id, Ok(reply)) => self.early.push((id, reply)),
            StoreEvent::Reply(_, Err(failure)) => panic!("{}", failure.error),
            StoreEvent::Turn(key) => drop(self.turns.insert(key)),
            StoreEvent::Wanted(key) => drop(self.wanted.insert(key)),
            StoreEvent::Connected => {}
        }
    }

    async fn ask(&mut self, op: Op) -> Reply {
        let id = self.next_id();
        self.submit(id, op);
        self.reply(id).await
    }

    async fn acquire(&mut self, key: &FullKey, token: Token, ttl: Duration) -> Option<Fence> {
        match self.ask(acquire(key, token, ttl)).await {
            Reply::Acquired { fence, .. } => {
                assert_eq!(fence.is_some(), self.promises.fences, "{fence:?}");
                Some(fence.unwrap_or(NO_FENCE))
            }
            Reply::Held { .. } => None,
            other => panic!("an acquire was answered by {other:?}"),
        }
    }

    async fn release(&mut self, key: &FullKey, token: Token) -> bool {
        match self.ask(release(key, token, Vec::new())).await {
            Reply::Released { found, .. } => found,
            other => panic!("a release was answered by {other:?}"),
        }
    }

    async fn renew(&mut self, keys: &[(&FullKey, Token)], ttl: Duration) -> Vec<bool> {
        let renewals = keys
            .iter()
            .map(|(key, token)| Renewal {
                key: FullKey::clone(key),
                token: *token,
                ttl,
            })
            .collect();
        match self.ask(Op::Renew(renewals)).await {
            Reply::Renewed(kept) => kept,
            other => panic!("a renewal was answered by {other:?}"),
        }
    }
}
