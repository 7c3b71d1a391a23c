//! Tests of the shares of a lock: each share ends independently and affects no other share.

use std::time::Duration;

use super::client::{Client, acquire, scene, taking};
use super::promises::TTL;
use crate::base::full_key::FullKey;
use crate::base::token::{Nonce, Token};
#[cfg(all(feature = "__test", feature = "redis"))]
use crate::store::LockStore;
use crate::store::{Give, GiveKind, Op, Renewal, Reply, Take, TakeKind};

pub(super) async fn run(one: &mut Client, two: &mut Client) {
    an_ended_share_stays_ended(one, two).await;
    a_short_share_shortens_no_other(one, two).await;
    a_lock_becomes_a_share(one, two).await;
    a_kept_permit_stays_in_use(one, two).await;
    a_kept_share_keeps_writers_out(one, two).await;
    a_lock_that_was_to_become_a_share_is_kept(one, two).await;
}

/// Takes three shares, runs `spoil`, and renews the shares. `spoil` must make the store refuse to
/// renew the share of the key `spoiled`.
///
/// # Panics
///
/// If the store does not report that it renewed the other shares.
#[cfg(all(feature = "__test", feature = "redis"))]
pub(crate) async fn one_share_is_refused(
    store: Box<dyn LockStore>,
    spoiled: &str,
    spoil: impl FnOnce(),
) {
    let mut one = Client::new(store);
    let token = Token::random(Nonce::new());
    let keys: [FullKey; 3] = ["lock:conf:a", spoiled, "lock:conf:b"].map(FullKey::from);
    for key in &keys {
        assert!(one.joins(key, token, TTL, 0).await);
    }
    spoil();
    let renewals = keys.iter().map(|key| renewal(key, token, TTL)).collect();
    let reply = one.ask(stay(renewals)).await;
    let kept = vec![Some(true), None, Some(true)];
    assert_eq!(reply, Reply::RenewedInPart(kept));
}

/// Checks that an ended share stays ended, even if another share keeps the lock and no request has
/// removed the ended share yet.
async fn an_ended_share_stays_ended(one: &mut Client, two: &mut Client) {
    let short_ttl = one.promises.short;
    for limit in [0, 2] {
        let (key, long, short) = scene(&format!("ended-{limit}"));
        assert!(one.joins(&key, long, TTL, limit).await);
        assert!(two.joins(&key, short, short_ttl, limit).await);
        tokio::time::sleep(short_ttl * 2).await;
        assert!(!two.stays(&key, short, TTL).await, "it had ended");
        assert!(one.stays(&key, long, TTL).await);
        assert!(one.parts(&key, long).await);
        is_free(two, &key).await;
    }
}

async fn a_short_share_shortens_no_other(one: &mut Client, two: &mut Client) {
    let short_ttl = one.promises.short;
    let (key, long, short) = scene("shortens");
    assert!(one.joins(&key, long, TTL, 0).await);
    assert!(two.joins(&key, short, short_ttl, 0).await);
    assert!(two.stays(&key, short, short_ttl).await);
    tokio::time::sleep(short_ttl * 2).await;
    let writer = two.ask(acquire(&key, short, TTL)).await;
    assert!(matches!(writer, Reply::Held { .. }), "{writer:?}");
    // A renewal with a ttl below the remaining time shortens the share.
    assert!(one.stays(&key, long, short_ttl).await);
    tokio::time::sleep(short_ttl * 2).await;
    is_free(two, &key).await;
}

async fn a_lock_becomes_a_share(one: &mut Client, two: &mut Client) {
    let (key, mine, other) = scene("becomes");
    one.acquire(&key, mine, TTL).await.expect("it is free");
    assert!(
        !two.joins(&key, other, TTL, 0).await,
        "another has it alone"
    );
    assert!(one.stays(&key, mine, TTL).await);
    assert!(one.stays(&key, mine, TTL).await, "as often as it is asked");
    assert!(two.joins(&key, other, TTL, 0).await);
    assert!(one.parts(&key, mine).await);
    assert!(!one.parts(&key, mine).await, "it has none any more");
    assert!(two.parts(&key, other).await);
    is_free(one, &key).await;
}

/// Checks a permit kept after its release: it is unavailable for the requested time and no longer.
/// Meanwhile, late requests of the call that had the permit must find nothing.
async fn a_kept_permit_stays_in_use(one: &mut Client, two: &mut Client) {
    let short_ttl = one.promises.short;
    let (key, mine, other) = scene("kept-permit");
    assert!(one.joins(&key, mine, TTL, 1).await);
    assert!(one.keeps(&key, mine, short_ttl).await);
    assert!(!one.keeps(&key, mine, TTL).await, "it has none any more");
    assert!(!one.stays(&key, mine, TTL).await, "renewed");
    assert!(!one.parts(&key, mine).await, "given back");
    let Reply::Held { left, .. } = two.ask(join(&key, other, TTL, 1)).await else {
        panic!("a kept permit was given to another token");
    };
    assert!(left.is_some_and(|left| left <= short_ttl), "{left:?}");
    tokio::time::sleep(short_ttl * 2).await;
    assert!(two.joins(&key, other, TTL, 1).await);
    assert!(two.parts(&key, other).await);
    is_free(one, &key).await;
}

/// Checks a share kept after its release: it keeps writers out, lets readers in, and ends after the
/// requested time. The readers' shares must last beyond that time.
async fn a_kept_share_keeps_writers_out(one: &mut Client, two: &mut Client) {
    let short_ttl = one.promises.short;
    let (key, mine, other) = scene("kept-share");
    assert!(one.joins(&key, mine, TTL, 0).await);
    assert!(one.keeps(&key, mine, short_ttl).await);
    let writer = two.ask(acquire(&key, other, TTL)).await;
    assert!(matches!(writer, Reply::Held { .. }), "{writer:?}");
    assert!(two.joins(&key, other, TTL, 0).await, "readers may enter");
    tokio::time::sleep(short_ttl * 2).await;
    let writer = one.ask(acquire(&key, mine, TTL)).await;
    assert!(matches!(writer, Reply::Held { .. }), "{writer:?}");
    assert!(two.parts(&key, other).await);
    is_free(one, &key).await;
}

async fn a_lock_that_was_to_become_a_share_is_kept(one: &mut Client, two: &mut Client) {
    let short_ttl = one.promises.short;
    let (key, mine, other) = scene("kept-before-shared");
    one.acquire(&key, mine, TTL).await.expect("it is free");
    assert!(one.keeps(&key, mine, short_ttl).await);
    assert!(!one.stays(&key, mine, TTL).await, "renewed");
    assert!(!two.joins(&key, other, TTL, 0).await, "it is kept whole");
    tokio::time::sleep(short_ttl * 2).await;
    is_free(two, &key).await;
}

async fn is_free(client: &mut Client, key: &FullKey) {
    let token = Token::random(Nonce::new());
    let fence = client.acquire(key, token, TTL).await;
    assert!(fence.is_some(), "{key} is not free");
    assert!(client.release(key, token).await);
}

fn join(key: &FullKey, token: Token, ttl: Duration, limit: u32) -> Op {
    Op::Take(Take {
        kind: TakeKind::Share { limit },
        ..taking(key, token, ttl)
    })
}

fn stay(renewals: Vec<Renewal>) -> Op {
    Op::Keep {
        renewals,
        shares: true,
    }
}

fn renewal(key: &FullKey, token: Token, ttl: Duration) -> Renewal {
    let key = key.clone();
    Renewal { key, token, ttl }
}

impl Client {
    /// Requests a share. Returns true if `token` now has one.
    pub(super) async fn joins(
        &mut self,
        key: &FullKey,
        token: Token,
        ttl: Duration,
        limit: u32,
    ) -> bool {
        match self.ask(join(key, token, ttl, limit)).await {
            Reply::Acquired { .. } => true,
            Reply::Held { .. } => false,
            other => panic!("a join was answered by {other:?}"),
        }
    }

    async fn stays(&mut self, key: &FullKey, token: Token, ttl: Duration) -> bool {
        match self.ask(stay(vec![renewal(key, token, ttl)])).await {
            Reply::Renewed(kept) => kept == [true],
            other => panic!("a renewal was answered by {other:?}"),
        }
    }

    pub(super) async fn parts(&mut self, key: &FullKey, token: Token) -> bool {
        self.part(key, token, None).await
    }

    /// Releases the share, which the store then keeps for the time `keep`.
    async fn keeps(&mut self, key: &FullKey, token: Token, keep: Duration) -> bool {
        self.part(key, token, Some(keep)).await
    }

    async fn part(&mut self, key: &FullKey, token: Token, keep: Option<Duration>) -> bool {
        let part = Give {
            keep,
            ..Give::now(key.clone(), token, GiveKind::Share)
        };
        match self.ask(Op::Give(part)).await {
            Reply::Released { found, .. } => found,
            other => panic!("a share that is given back was answered by {other:?}"),
        }
    }
}
