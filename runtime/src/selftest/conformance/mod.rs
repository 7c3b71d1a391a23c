//! The conformance suite: the required behaviour of every store.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use self::client::{Client, acquire, release, scene};
use self::play::play;
pub(crate) use self::promises::Promises;
#[cfg(feature = "__test")]
use self::promises::TTL;
use crate::base::full_key::FullKey;
use crate::base::token::{Nonce, Token};
use crate::fence::Fence;
use crate::store::{Give, GiveKind, LockStore, Op, Reply, Request, StoreEvent};

mod all_at_once;
mod client;
mod late;
mod mixed;
mod play;
mod promises;
mod queue;
mod results;
mod shares;

pub(crate) use self::queue::run as run_queue;
#[cfg(all(feature = "__test", feature = "redis"))]
pub(crate) use self::shares::one_share_is_refused;

/// Runs the suite. `connect` returns another client of the same store.
///
/// # Panics
///
/// If the store does not conform.
pub(crate) async fn run(promises: Promises, mut connect: impl FnMut() -> Box<dyn LockStore>) {
    let mut one = Client::of(promises, connect());
    let mut two = Client::of(promises, connect());
    play!(exclusion; one, two);
    play!(idempotence; one, two);
    play!(ownership; one, two);
    play!(expiry; one, two);
    play!(renewal; one, two);
    play!(renewal_never_creates; one, two);
    if promises.fences {
        play!(fences_grow; one, two);
    }
    if promises.all_at_once {
        play!(all_at_once::run; one, two);
    } else {
        play!(all_at_once::refused; one);
    }
    play!(order; one, two);
    play!(batches; one);
    // Not for a store with sessions, which sends its requests without being polled.
    if !promises.sessions {
        play!(sent_behind_answers; one, two);
        play!(sent_with_the_answer; one, two);
    }
    if promises.keeps {
        play!(kept; one, two);
        play!(kept_from_its_token; one, two);
    }
    play!(mixed::run; one, two);
    // The thread that polls the store is late in these tests. They skip a quorum, whose nodes do
    // not vote if their answers are read late. They also skip a store with sessions, because it
    // runs on the engine's thread, which no caller delays.
    if !promises.is_quorum() && !promises.sessions {
        // This test must come first. Each of the two tests delays an answer, so the Redis store
        // replaces its connection some time later. If that happened during this test, the new
        // socket would not be left to listeners.
        play!(late::an_answer_that_no_listener_received_counts; one);
        play!(late::an_answer_that_has_come_counts; one);
    }
    // Neither a quorum nor a store with sessions keeps results.
    if !promises.is_quorum() && !promises.sessions {
        play!(results::run; one, two);
    }
    if promises.sessions {
        play!(no_token_of_another_session; one, two);
    }
}

/// Checks that a process does not mistake a node of another session for its own, even if both have
/// the same token. A node is a key of etcd or a znode of ZooKeeper.
async fn no_token_of_another_session(one: &mut Client, two: &mut Client) {
    let Promises { ttl, .. } = one.promises;
    let (key, mine, _) = scene("session");
    one.acquire(&key, mine, ttl).await.expect("it is free");
    assert_eq!(two.acquire(&key, mine, ttl).await, None, "it is another's");
    assert_eq!(two.renew(&[(&key, mine)], ttl).await, [false]);
    assert!(!two.release(&key, mine).await);
    assert_eq!(one.renew(&[(&key, mine)], ttl).await, [true]);
    assert!(one.release(&key, mine).await);
}

async fn exclusion(one: &mut Client, two: &mut Client) {
    let Promises { ttl, .. } = one.promises;
    let (key, mine, other) = scene("exclusion");
    assert!(one.acquire(&key, mine, ttl).await.is_some());
    let Reply::Held { left, .. } = two.ask(acquire(&key, other, ttl)).await else {
        panic!("a held key was given to another token");
    };
    assert!(one.promises.is_left(left, ttl), "{left:?}");
    assert!(one.release(&key, mine).await);
    assert!(two.acquire(&key, other, ttl).await.is_some());
    assert!(two.release(&key, other).await);
}

async fn idempotence(one: &mut Client, two: &mut Client) {
    let Promises { ttl, short, .. } = one.promises;
    let (key, mine, other) = scene("idempotence");
    let (before, after) = one.promises.waits();
    let first = one.acquire(&key, mine, short).await.unwrap();
    tokio::time::sleep(before).await;
    let longer = one.promises.again();
    let same = if one.promises.sessions {
        &mut *one
    } else {
        &mut *two
    };
    let again = same.acquire(&key, mine, longer).await;
    assert_eq!(again, Some(first), "the same token got another fence");
    tokio::time::sleep(after).await;
    // On a quorum, one node may have executed the two acquires in the opposite order. Its key may
    // have expired, but the majority still refuses this acquire.
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
    let (before, after) = one.promises.waits();
    one.acquire(&key, mine, short).await.unwrap();
    tokio::time::sleep(before).await;
    let longer = one.promises.again();
    assert_eq!(one.renew(&[(&key, mine)], longer).await, [true]);
    tokio::time::sleep(after).await;
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

/// Checks that after a release with `keep`, no client gets the lock for this time, and that another
/// client can take it afterwards.
async fn kept(one: &mut Client, two: &mut Client) {
    let Promises { ttl, short, .. } = one.promises;
    let (key, mine, other) = scene("kept");
    let keep = |key: &FullKey, token: Token| {
        Op::Give(Give {
            keep: Some(short),
            ..Give::now(key.clone(), token, GiveKind::Lock)
        })
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
    let is_right = left.map_or(one.promises.sessions, |left| left <= longest);
    assert!(is_right, "{left:?}");
    tokio::time::sleep(short * 2).await;
    assert!(two.acquire(&key, other, ttl).await.is_some());
    assert!(two.release(&key, other).await);
}

/// Checks that a kept lock no longer belongs to its token: no request with this token finds the
/// lock.
async fn kept_from_its_token(one: &mut Client, two: &mut Client) {
    let Promises { ttl, short, .. } = one.promises;
    let (key, mine, other) = scene("kept-from");
    let keep = Op::Give(Give {
        keep: Some(short),
        ..Give::now(key.clone(), mine, GiveKind::Lock)
    });
    one.acquire(&key, mine, ttl).await.unwrap();
    let kept = one.ask(keep.clone()).await;
    assert!(matches!(kept, Reply::Released { found: true, .. }));
    assert_eq!(two.renew(&[(&key, mine)], ttl).await, [false], "renewed");
    assert_eq!(two.acquire(&key, mine, ttl).await, None, "taken again");
    // Sends the release again, like a client that lost the reply or abandons an acquire.
    let again = one.ask(keep).await;
    assert!(matches!(again, Reply::Released { found: false, .. }));
    // On a quorum, the refused acquire may have set the key on a single node.
    let released = two.release(&key, mine).await;
    assert!(!released || one.promises.is_quorum(), "it is kept");
    let held = two.ask(acquire(&key, other, ttl)).await;
    assert!(matches!(held, Reply::Held { .. }), "{held:?}");
    tokio::time::sleep(short * 2).await;
    assert!(two.acquire(&key, other, ttl).await.is_some(), "lengthened");
    assert!(two.release(&key, other).await);
}

/// Checks that a release submitted after an acquire undoes that acquire.
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
        .map(|n| format!("lock:conf:{}:{n}", play::name("batch")).into())
        .collect();
    let token = Token::random(Nonce::new());
    // All acquires are sent together. Sent one after the other, they would take longer than the ttl
    // on a busy machine.
    let acquires = keys.iter().map(|key| acquire(key, token, ttl));
    for reply in one.ask_all(acquires.collect()).await {
        assert!(matches!(reply, Reply::Acquired { .. }), "{reply:?}");
    }
    let mut expected = vec![true; keys.len()];
    for lost in [0, 199, 200, 449] {
        assert!(one.release(&keys[lost], token).await);
        expected[lost] = false;
    }
    let renewals: Vec<_> = keys.iter().map(|key| (key, token)).collect();
    assert_eq!(one.renew(&renewals, ttl).await, expected);
    let releases = keys.iter().map(|key| release(key, token, vec![]));
    one.ask_all(releases.collect()).await;
}

/// Checks that a poll sends all submitted requests, even if the same poll returns the answer to an
/// earlier request.
async fn sent_behind_answers(one: &mut Client, two: &mut Client) {
    let Promises { ttl, .. } = one.promises;
    // The first two keys are on one node of a cluster.
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

/// Checks that the poll that returns an answer also sends the requests that had to wait for this
/// answer.
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

/// Checks that the poll that returns an answer also follows a redirect that arrived together with
/// this answer. `one` expects both `keys` on one node, but the second key has moved.
///
/// # Panics
///
/// If the redirect is not followed before the client polls again.
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

/// Checks the case in which one node grants the lock and the majority refuses it. The poll that
/// returns the refusal must also release the lock on that node.
///
/// `given` returns true while the one node has granted the lock and still has it. The other two
/// nodes answer that the lock is held; they do not both answer before `decides` is called.
///
/// # Panics
///
/// If the lock is not released before the client polls again.
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
        // The time-out gives the client time to read every reply in its socket. These replies must
        // not decide the acquire yet.
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

/// Waits until the server has given the lock to `token`. The client that requested the lock is not
/// polled meanwhile.
async fn sent(client: &mut Client, key: &FullKey, token: Token) {
    let ttl = client.promises.ttl;
    let seen = async { while client.renew(&[(key, token)], ttl).await != [true] {} };
    let seen = tokio::time::timeout(Duration::from_secs(5), seen).await;
    assert!(seen.is_ok(), "{key:?} lies behind what was answered");
}
