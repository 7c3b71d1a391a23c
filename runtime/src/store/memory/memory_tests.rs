use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use super::*;
use crate::base::full_key::FullKey;
use crate::base::token::{Nonce, Token};
use crate::fence::Fence;
use crate::inspect::pattern::Pattern;
use crate::pool::LockPool;
use crate::selftest::conformance::{self, Promises};
use crate::store::source::Place;
use crate::store::{Give, GiveKind, OpId, Take, TakeKind};

const TTL: Duration = Duration::from_secs(60);
/// Number of reserved fences of each acquisition. Fences are times in microseconds, so each
/// acquisition puts the latest fence another minute ahead of the clock.
const RESERVED: u32 = 60_000_000;

#[tokio::test]
async fn conforms() {
    let space = Space::new(Clock::System);
    let connect = || Box::new(MemoryStore::inside(Arc::clone(&space))) as _;
    conformance::run(Promises::ONE, connect).await;
    conformance::run_queue(Promises::ONE, connect).await;
}

fn named(name: &str) -> MemoryStore {
    MemoryStore::named(name.to_owned())
}

fn ask(store: &mut MemoryStore, op: Op) -> Reply {
    let request = Request {
        id: OpId(1),
        op,
        patience: TTL,
    };
    store.submit(&mut vec![request]);
    match store.poll_event(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(StoreEvent::Reply(_, Ok(reply))) => reply,
        other => panic!("{other:?} instead of an answer"),
    }
}

/// Acquires the one key of these tests, without a queue. Returns the fence if `store` takes the
/// key.
fn take(store: &mut MemoryStore, token: Token, ttl: Duration) -> Option<Fence> {
    let take = Take {
        kind: TakeKind::Lock {
            reserved_fences: RESERVED,
        },
        ..Take::lock(FullKey::from("k"), token, ttl, "")
    };
    match ask(store, Op::Take(take)) {
        Reply::Acquired { fence, .. } => Some(fence.expect("this store has fences")),
        Reply::Held { .. } => None,
        other => panic!("{other:?}"),
    }
}

fn release(store: &mut MemoryStore, token: Token) {
    let give = Give::now(FullKey::from("k"), token, GiveKind::Lock);
    assert!(matches!(
        ask(store, Op::Give(give)),
        Reply::Released { found: true, .. }
    ));
}

fn token() -> Token {
    Token::random(Nonce::new())
}

/// Fails if a list of locks shows a lock of a readiness probe.
#[test]
fn reserved_keys_are_not_listed() {
    let space = Space::new(Clock::System);
    let mut store = MemoryStore::inside(Arc::clone(&space));
    for name in ["%leasehold:ready:1", "k"] {
        let take = Take::lock(FullKey::new("", name), token(), TTL, "");
        let taken = ask(&mut store, Op::Take(take));
        assert!(matches!(taken, Reply::Acquired { .. }), "{taken:?}");
    }
    let page = space.page("", &Pattern::new("*"), &Place(String::new()));
    let names: Vec<_> = page.locks.iter().map(|lock| lock.key.as_str()).collect();
    assert_eq!(names, ["k"]);
}

/// Fails if a readiness probe leaves its lock behind.
#[tokio::test]
async fn a_readiness_probe_leaves_nothing() {
    // Half of the ttl of the probe's lock, so only the pool can have removed the lock.
    const SOON: Duration = Duration::from_secs(1);
    let pool = LockPool::connect("memory://tests-ready").await;
    let pool = pool.expect("a pool");
    let (space, other) = Space::enter_named("tests-ready");
    let held = pool.lock("held").ttl(TTL).acquire().await.expect("free");
    assert_eq!(space.entries().by_key.len(), 1);
    held.release().await.expect("held");
    for _ in 0..20 {
        pool.ready().await.expect("a lock can be taken");
    }
    let began = Clock::System.now();
    while !space.entries().by_key.is_empty() {
        let took = Clock::System.now().since(began);
        assert!(took < SOON, "a lock is left after {took:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    space.leave(other);
}

#[test]
fn pools_with_the_same_name_share_locks() {
    let (mut one, mut same) = (named("tests-one"), named("tests-one"));
    let mut two = named("tests-two");
    let mut private = [0; 2].map(|_| MemoryStore::private(Clock::System));
    assert!(take(&mut one, token(), TTL).is_some());
    assert!(take(&mut same, token(), TTL).is_none());
    assert!(take(&mut two, token(), TTL).is_some());
    for store in &mut private {
        assert!(take(store, token(), TTL).is_some());
    }
}

/// Fails if a `memory://` name stays in the registry after its last pool has closed. A process that
/// keeps opening pools with new names would then need more and more memory.
#[test]
fn a_name_is_forgotten_with_its_last_pool() {
    let mut first = named("tests-forgotten");
    let second = named("tests-forgotten");
    let held = token();
    assert!(take(&mut first, held, TTL).is_some());
    release(&mut first, held);
    drop(first);
    assert!(space::is_known("tests-forgotten"), "it has a pool");
    drop(second);
    assert!(!space::is_known("tests-forgotten"), "it is of no use");
}

/// The last pool with a name closes without releasing its lock. Fails if the next pool with this
/// name takes the lock before its lease is over, or if the name stays registered after that.
#[test]
fn a_lock_outlives_the_last_pool_until_its_ttl_ends() {
    let held = token();
    let mut first = named("tests-outlives");
    assert!(take(&mut first, held, TTL).is_some());
    drop(first);
    let mut next = named("tests-outlives");
    assert!(take(&mut next, token(), TTL).is_none(), "its lease runs on");
    release(&mut next, held);
    let short = Duration::from_millis(1);
    assert!(take(&mut next, token(), short).is_some());
    let end = Clock::System.now() + short;
    drop(next);
    while Clock::System.now() < end {
        thread::yield_now();
    }
    drop(named("tests-another"));
    assert!(!space::is_known("tests-outlives"), "its lease is over");
}

/// Reserved fences put the latest fence ahead of the clock. Then the last pool with a name closes,
/// so the name is forgotten. Fails if the next pool with this name gets smaller fences, taken from
/// the clock again.
#[test]
fn fences_keep_growing_after_the_last_pool() {
    let mut fences = Vec::new();
    for _ in 0..3 {
        let mut store = named("tests-fences");
        let held = token();
        let fence = take(&mut store, held, TTL).expect("free");
        fences.push(fence.get());
        release(&mut store, held);
        drop(store);
        assert!(!space::is_known("tests-fences"), "it begins again");
    }
    let reserved = u64::from(RESERVED);
    assert!(
        fences.is_sorted_by(|one, next| one + reserved < *next),
        "{fences:?}"
    );
}

/// Several threads open and close pools with the same name. Fails if the name is removed from the
/// registry while another pool opens with it: the next pool would then have separate locks.
#[test]
fn short_lived_pools_exclude_each_other() {
    static INSIDE: AtomicU32 = AtomicU32::new(0);
    let pools = || {
        let mut sections = 0;
        while sections < 300 {
            let mut store = named("tests-race");
            let token = token();
            if take(&mut store, token, TTL).is_some() {
                assert_eq!(INSIDE.fetch_add(1, Ordering::SeqCst), 0, "two holders");
                thread::yield_now();
                INSIDE.fetch_sub(1, Ordering::SeqCst);
                release(&mut store, token);
                sections += 1;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(pools);
        }
    });
    assert!(!space::is_known("tests-race"), "nothing is left");
}
