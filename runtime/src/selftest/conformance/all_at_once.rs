//! Tests of requests that take several keys in one step: all of them or none.

use std::time::{Duration, Instant};

use super::client::{Client, release, taking};
use super::play;
use crate::base::full_key::FullKey;
use crate::base::token::{Nonce, Token};
use crate::fence::Fence;
use crate::store::{Op, Reply, Take, TakeKind};

type Locks = Vec<(FullKey, Token)>;

pub(super) async fn run(one: &mut Client, two: &mut Client) {
    all_are_taken(one, two).await;
    nothing_is_taken(one, two).await;
    the_same_tokens(one, two).await;
    a_part_of_the_same_tokens(one, two).await;
    if !one.promises.sessions {
        readers_keep_it_out(one, two).await;
    }
    nobody_is_overtaken(one, two).await;
    order(one, two).await;
}

/// Checks a store that can take keys only one by one: it must answer a request for several keys
/// with `Reply::Apart`, and take none of them.
pub(super) async fn refused(one: &mut Client) {
    let locks = locks("refused");
    let ttl = one.promises.ttl;
    assert_eq!(one.ask(all(&locks, ttl)).await, Reply::Apart);
    for (key, token) in &locks {
        assert!(!one.release(key, *token).await, "{key} was taken");
    }
}

async fn all_are_taken(one: &mut Client, two: &mut Client) {
    let (locks, ttl) = (locks("taken"), one.promises.ttl);
    let mut last = Vec::new();
    for round in 0..4 {
        let client = if round % 2 == 0 { &mut *one } else { &mut *two };
        let fences = client.take_all(&locks, ttl).await.expect("all are free");
        assert!(
            last.iter().max() < fences.iter().min(),
            "{last:?} {fences:?}"
        );
        for (key, _) in &locks {
            let other = Token::random(Nonce::new());
            assert_eq!(two.acquire(key, other, ttl).await, None);
        }
        let client = if one.promises.sessions && round % 2 == 1 {
            &mut *two
        } else {
            &mut *one
        };
        client.release_all(&locks).await;
        last = fences;
    }
}

async fn nothing_is_taken(one: &mut Client, two: &mut Client) {
    let (locks, ttl) = (locks("nothing"), one.promises.ttl);
    for (at, (held, _)) in locks.iter().enumerate() {
        let other = Token::random(Nonce::new());
        two.acquire(held, other, ttl).await.expect("it is free");
        match one.ask(all(&locks, ttl)).await {
            Reply::HeldAmong {
                at: found,
                left,
                owner,
            } => {
                assert_eq!(found, at);
                assert_eq!(owner.map(|owner| owner.pid), Some(std::process::id()));
                assert!(one.promises.is_left(left, ttl), "{left:?}");
            }
            other => panic!("one is held, and the answer was {other:?}"),
        }
        for (key, token) in &locks {
            assert!(!one.release(key, *token).await, "{key} was taken");
        }
        assert!(two.release(held, other).await, "it was taken away");
    }
}

async fn the_same_tokens(one: &mut Client, two: &mut Client) {
    let locks = locks("same");
    let (longer, (_, after)) = (one.promises.again(), one.promises.waits());
    let fences = take_twice(&locks, one, two).await;
    // The lease must last for the ttl of the second request, counted from that request.
    tokio::time::sleep(after).await;
    for (key, _) in &locks {
        let other = Token::random(Nonce::new());
        let taken = one.acquire(key, other, longer).await;
        assert_eq!(taken, None, "{key} has the ttl of the first request");
    }
    // Acquires the keys one by one, like a call that lost the answer to its request for all keys.
    for ((key, token), fence) in locks.iter().zip(fences) {
        assert_eq!(one.acquire(key, *token, longer).await, Some(fence));
    }
    one.release_all(&locks).await;
}

/// Takes the locks for the short ttl, and takes them again with the same tokens while the first
/// lease lasts. Repeats both steps if the first lease ended too early because the machine was busy.
async fn take_twice(locks: &Locks, one: &mut Client, two: &mut Client) -> Vec<Fence> {
    let short = one.promises.short;
    let (longer, (before, _)) = (one.promises.again(), one.promises.waits());
    for _ in 0..10 {
        let begun = Instant::now();
        let first = one.take_all(locks, short).await.expect("all are free");
        tokio::time::sleep(before).await;
        let same = if one.promises.sessions {
            &mut *one
        } else {
            &mut *two
        };
        let again = same.take_all(locks, longer).await;
        if begun.elapsed() < short {
            assert_eq!(again, Some(first.clone()), "the same tokens got others");
            return first;
        }
        assert!(again.is_some(), "the same tokens were refused");
        one.release_all(locks).await;
    }
    panic!("two requests took longer than {short:?} ten times");
}

async fn a_part_of_the_same_tokens(one: &mut Client, two: &mut Client) {
    let (locks, ttl) = (locks("part"), one.promises.ttl);
    let (key, token) = &locks[1];
    let fence = one.acquire(key, *token, ttl).await.expect("it is free");
    let same = if one.promises.sessions {
        &mut *one
    } else {
        &mut *two
    };
    let all_of_them = same.take_all(&locks, ttl).await.expect("the rest is free");
    assert_eq!(all_of_them[1], fence);
    assert!(fence < all_of_them[0] && fence < all_of_them[2]);
    one.release_all(&locks).await;
    // The client `one` holds one of the keys and requests all. The client `two` holds another key,
    // so the request is refused. `one` keeps its key, but gets no other.
    let other = Token::random(Nonce::new());
    one.acquire(key, *token, ttl).await.expect("it is free");
    two.acquire(&locks[2].0, other, ttl).await.expect("free");
    assert_eq!(one.take_all(&locks, ttl).await, None);
    assert!(!one.release(&locks[0].0, locks[0].1).await);
    assert!(one.release(key, *token).await);
    assert!(two.release(&locks[2].0, other).await);
}

async fn readers_keep_it_out(one: &mut Client, two: &mut Client) {
    let locks = locks("readers");
    let (ttl, short) = (one.promises.ttl, one.promises.short);
    let read = |ttl| {
        Op::Take(Take {
            kind: TakeKind::Share { limit: 0 },
            ..taking(&locks[1].0, Token::random(Nonce::new()), ttl)
        })
    };
    let reader = two.ask(read(short)).await;
    assert!(matches!(reader, Reply::Acquired { .. }), "{reader:?}");
    assert_eq!(one.take_all(&locks, ttl).await, None);
    tokio::time::sleep(short * 2).await;
    let fences = one.take_all(&locks, ttl).await;
    assert!(fences.is_some(), "the reader's share has ended");
    one.release_all(&locks).await;
}

async fn nobody_is_overtaken(one: &mut Client, two: &mut Client) {
    let locks = locks("overtaken");
    let (ttl, short) = (one.promises.ttl, one.promises.short);
    let (key, mine) = (&locks[1].0, Token::random(Nonce::new()));
    let holder = Token::random(Nonce::new());
    one.acquire(key, holder, short).await.expect("it is free");
    let wants = Op::Take(Take {
        queue: true,
        ..taking(key, mine, ttl)
    });
    let line = two.ask(wants.clone()).await;
    assert!(matches!(line, Reply::Held { queued: true, .. }), "{line:?}");
    tokio::time::sleep(short * 2).await;
    assert_eq!(one.take_all(&locks, ttl).await, None);
    let served = two.ask(wants).await;
    assert!(matches!(served, Reply::Acquired { .. }), "{served:?}");
    assert!(two.release(key, mine).await);
    assert!(one.take_all(&locks, ttl).await.is_some());
    one.release_all(&locks).await;
}

/// Submits an acquire of all keys, and right behind it a release of each key. Checks that the
/// releases undo the acquire.
async fn order(one: &mut Client, two: &mut Client) {
    let (locks, ttl) = (locks("order"), one.promises.ttl);
    for _ in 0..50 {
        let first = one.next_id();
        one.submit(first, all(&locks, ttl));
        let mut undone = Vec::new();
        for (key, token) in &locks {
            let id = one.next_id();
            one.submit(id, release(key, *token, vec![first]));
            undone.push(id);
        }
        one.reply(first).await;
        for id in undone {
            let reply = one.reply(id).await;
            assert!(matches!(reply, Reply::Released { found: true, .. }));
        }
    }
    assert!(two.take_all(&locks, ttl).await.is_some());
    two.release_all(&locks).await;
}

/// Returns three locks whose keys are in one slot of a Redis cluster.
fn locks(scene: &str) -> Locks {
    let scene = play::name(scene);
    let lock = |name| {
        let key = format!("lock:{{conf:together:{scene}}}:{name}");
        (key.into(), Token::random(Nonce::new()))
    };
    ["a", "b", "c"].map(lock).into()
}

fn all(locks: &[(FullKey, Token)], ttl: Duration) -> Op {
    Op::TakeAll {
        keys: locks.to_vec(),
        ttl,
        function: "conformance",
    }
}

impl Client {
    async fn take_all(&mut self, locks: &[(FullKey, Token)], ttl: Duration) -> Option<Vec<Fence>> {
        let fence = |reply| match reply {
            Reply::Acquired { fence, .. } => fence.expect("stores with this have fences"),
            other => panic!("one of the locks was answered by {other:?}"),
        };
        match self.ask(all(locks, ttl)).await {
            Reply::AcquiredAll(replies) => {
                assert_eq!(replies.len(), locks.len());
                Some(replies.into_iter().map(fence).collect())
            }
            Reply::HeldAmong { .. } => None,
            other => panic!("an acquire of all was answered by {other:?}"),
        }
    }

    async fn release_all(&mut self, locks: &[(FullKey, Token)]) {
        for (key, token) in locks {
            assert!(self.release(key, *token).await, "{key} is not held");
        }
    }
}
