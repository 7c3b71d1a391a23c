//! Tests that requests sent together get the same answers as requests sent alone. The requests
//! differ in their ttl and in the number of reserved fences.

use std::time::Duration;

use super::client::{Client, acquire, release, renew, taking};
use super::play;
use crate::base::full_key::FullKey;
use crate::base::token::{Nonce, Token};
use crate::fence::Fence;
use crate::store::{Give, GiveKind, Op, Renewal, Reply, Take, TakeKind};

/// More requests than fit into one batch.
const KEYS: usize = 70;

/// A lock of this test, with the parameters of its acquire.
struct Lock {
    key: FullKey,
    token: Token,
    /// Every third lock has a shorter ttl.
    ttl: Duration,
    reserved_fences: u32,
}

/// The outcome of an acquire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Had {
    Nothing,
    Fence(Option<Fence>),
}

pub(super) async fn run(one: &mut Client, two: &mut Client) {
    let locks: Vec<Lock> = (0..KEYS).map(|nth| lock(one, nth)).collect();
    let other = Token::random(Nonce::new());
    let taken = &locks[5];
    two.acquire(&taken.key, other, taken.ttl).await.unwrap();
    let fences = acquired(one, &locks, &taken.key).await;
    last(two, &locks).await;
    // Repeats the requests. All keys except `taken` still have the tokens of the first requests.
    let again = acquired(one, &locks, &taken.key).await;
    assert_eq!(again, fences, "the same tokens got others");
    last(two, &locks).await;
    renewed(one, two, &locks, &taken.key).await;
    released(one, two, &locks, &fences).await;
    assert!(two.release(&taken.key, other).await);
}

fn lock(client: &Client, nth: usize) -> Lock {
    let short = client.promises.other();
    Lock {
        key: format!("lock:conf:{}:{nth}", play::name("mixed")).into(),
        token: Token::random(Nonce::new()),
        ttl: if nth.is_multiple_of(3) {
            short
        } else {
            client.promises.ttl
        },
        reserved_fences: u32::from(nth.is_multiple_of(2)) * 3,
    }
}

/// Requests all locks, while another client has the key `taken`. Returns the outcome for each lock.
async fn acquired(client: &mut Client, locks: &[Lock], taken: &FullKey) -> Vec<Had> {
    let ops = locks.iter().map(|lock| {
        let reserved_fences = lock.reserved_fences;
        Op::Take(Take {
            kind: TakeKind::Lock { reserved_fences },
            ..taking(&lock.key, lock.token, lock.ttl)
        })
    });
    let replies = client.ask_all(ops.collect()).await;
    let mut fences = Vec::new();
    for (lock, reply) in locks.iter().zip(replies) {
        fences.push(match reply {
            Reply::Acquired {
                fence,
                reserved_fences,
                ..
            } => {
                let reserves = !client.promises.sessions;
                let expected = if reserves { lock.reserved_fences } else { 0 };
                assert_eq!(reserved_fences, expected, "{}", lock.key);
                assert_eq!(fence.is_some(), client.promises.fences, "{}", lock.key);
                assert_ne!(lock.key, *taken);
                Had::Fence(fence)
            }
            Reply::Held { .. } => {
                assert_eq!(lock.key, *taken);
                Had::Nothing
            }
            other => panic!("an acquire was answered by {other:?}"),
        });
    }
    fences
}

/// Checks that the remaining time of each lease fits its ttl.
async fn last(client: &mut Client, locks: &[Lock]) {
    let longest = client.promises.ttl;
    let ops = locks
        .iter()
        .map(|lock| acquire(&lock.key, Token::random(Nonce::new()), longest));
    for (lock, reply) in locks.iter().zip(client.ask_all(ops.collect()).await) {
        let Reply::Held { left, .. } = reply else {
            panic!("{} is held, and not {reply:?}", lock.key);
        };
        let Some(left) = left else {
            assert!(client.promises.sessions, "{}: its end is known", lock.key);
            continue;
        };
        let most = client.promises.longest(longest, lock.ttl);
        assert!(left <= most, "{}: {left:?}", lock.key);
        if lock.ttl == longest {
            assert!(longest / 2 < left, "{}: {left:?}", lock.key);
        }
    }
}

/// Renews all locks, and changes their ttls. Only the renewal of `taken` must fail, because another
/// client has this key.
async fn renewed(one: &mut Client, two: &mut Client, locks: &[Lock], taken: &FullKey) {
    let longest = one.promises.ttl;
    let other = |lock: &Lock| Lock {
        key: lock.key.clone(),
        ttl: if lock.ttl == longest && lock.key != *taken {
            one.promises.other()
        } else {
            longest
        },
        ..*lock
    };
    let changed: Vec<Lock> = locks.iter().map(other).collect();
    let renewals = changed.iter().map(|lock| Renewal {
        key: lock.key.clone(),
        token: lock.token,
        ttl: lock.ttl,
    });
    let Reply::Renewed(kept) = one.ask(renew(renewals.collect())).await else {
        panic!("a renewal was answered by something else");
    };
    let expected: Vec<_> = locks.iter().map(|lock| lock.key != *taken).collect();
    assert_eq!(kept, expected);
    last(two, &changed).await;
}

/// Releases a quorum's lock up to five times. Returns true once an answer shows that no majority of
/// the nodes had the lock. One release may not show this: a node that does not answer in time may
/// have had the lock. Returns false for any other store.
async fn never_had(client: &mut Client, lock: &Lock) -> bool {
    if !client.promises.is_quorum() {
        return false;
    }
    for _ in 0..5 {
        if !client.release(&lock.key, lock.token).await {
            return true;
        }
    }
    false
}

/// Releases all locks, every fourth one with `keep` if the store supports that. A kept lock must
/// then be refused to the other client. The other locks must be free at once, and their next
/// fences must come after the reserved fences.
async fn released(one: &mut Client, two: &mut Client, locks: &[Lock], fences: &[Had]) {
    let keep = one.promises.ttl / 8;
    let longest = one.promises.longest(one.promises.ttl, keep);
    let keeps = one.promises.keeps;
    let is_kept = |nth: usize| keeps && nth.is_multiple_of(4);
    let ops = locks.iter().enumerate().map(|(nth, lock)| {
        Op::Give(Give {
            keep: is_kept(nth).then_some(keep),
            ..Give::now(lock.key.clone(), lock.token, GiveKind::Lock)
        })
    });
    let replies = one.ask_all(ops.collect()).await;
    for ((lock, had), reply) in locks.iter().zip(fences).zip(replies) {
        let Reply::Released { found, .. } = reply else {
            panic!("a release was answered by {reply:?}");
        };
        let missed = *had != Had::Nothing && one.promises.is_quorum();
        let as_it_was = missed || found == (*had != Had::Nothing);
        assert!(as_it_was || never_had(one, lock).await, "{}", lock.key);
    }
    let next = Token::random(Nonce::new());
    let ttl = one.promises.ttl;
    let ops = locks.iter().map(|lock| acquire(&lock.key, next, ttl));
    let replies = two.ask_all(ops.collect()).await;
    for (nth, (lock, reply)) in locks.iter().zip(replies).enumerate() {
        let had = fences[nth];
        match reply {
            Reply::Acquired { fence, .. } => {
                assert!(!is_kept(nth), "{} was given away", lock.key);
                let Had::Fence(had) = had else {
                    panic!("{} was taken away", lock.key);
                };
                let kept = if two.promises.sessions {
                    0
                } else {
                    lock.reserved_fences
                };
                let reserved = had.map(|had| Fence::new(had.get() + u64::from(kept)));
                assert!(reserved < fence || fence.is_none(), "{fence:?}");
            }
            Reply::Held { left, .. } => {
                let is_right = left.map_or(two.promises.sessions, |left| left <= longest);
                assert!(had == Had::Nothing || is_kept(nth) && is_right, "{left:?}");
            }
            other => panic!("{} was answered by {other:?}", lock.key),
        }
    }
    let ops = locks
        .iter()
        .map(|lock| release(&lock.key, next, Vec::new()));
    two.ask_all(ops.collect()).await;
    tokio::time::sleep(keep).await;
}
