//! Tests that a lock reserved for a waiting process (`LockState::Handed`) is shown as such.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use leasehold::{LockInfo, LockPool, LockState};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::stores::Store;
use leasehold_tests::{on_every_store_of_leases, on_stores};
use tokio::sync::oneshot;

use super::{LONG, TTL, seen};

/// Time for which the store reserves a released lock for the first waiting process.
const CLAIM: Duration = Duration::from_secs(1);

/// Maximum number of rounds. Even on a busy machine, some rounds end within `CLAIM`.
const ROUNDS: u32 = 10;

// On etcd and ZooKeeper, the next process has a released lock at once. Redlock has no queue.
on_every_store_of_leases!(a_reserved_lock_is_shown_as_handed);

on_stores!(sentinel cluster: (a_reserved_lock_is_shown_as_handed));

/// Keeps the engine of a pool busy until the returned sender is dropped. Meanwhile the pool sends
/// no requests.
async fn busy(pool: &LockPool) -> mpsc::Sender<()> {
    let ((begun, begins), (end, ends)) = (oneshot::channel(), mpsc::channel());
    let pool = pool.clone();
    std::thread::spawn(move || {
        leasehold::__test::inside_engine(&pool, move || {
            begun.send(()).expect("the test waits");
            // Returns an error when the test drops the sender.
            let _ = ends.recv();
        });
    });
    begins.await.expect("the engine runs");
    end
}

/// Releases a lock for which `next` waits, but which it cannot request. Returns the lock as
/// inspected and as listed, or `None` if the store's time to reserve it was over.
async fn reserved(holder: &LockPool, next: &LockPool) -> Option<[LockInfo; 2]> {
    let guard = holder.lock("r").ttl(TTL).wait(LONG).acquire().await;
    let guard = guard.expect("its turn comes");
    let request = next.lock("r").ttl(TTL).wait(LONG);
    let waiting = std::thread::spawn(move || request.acquire_blocking()?.release_blocking());
    let excuse = Excuse::begin();
    seen(holder, "r", |lock| lock.waiting.len() == 1).await;
    let began = Instant::now();
    let busy = busy(next).await;
    guard.release().await.expect("held");
    let inspected = holder.inspect("r").await.expect("it answers");
    let listed = holder.locks("*").next().await;
    let is_late = CLAIM <= began.elapsed() || CLAIM <= excuse.longest();
    drop(busy);
    waiting.join().expect("no panic").expect("its turn comes");
    if is_late {
        return None;
    }
    let listed = listed.expect("it is listed").expect("it answers");
    Some([inspected, listed])
}

/// Fails if `inspect` or `locks` shows a reserved lock as free, as held, or with a holder.
async fn a_reserved_lock_is_shown_as_handed(store: &Store) {
    let (holder, next) = (store.pool().await, store.pool().await);
    for _ in 0..ROUNDS {
        let Some(shown) = reserved(&holder, &next).await else {
            continue;
        };
        for lock in shown {
            assert_eq!((&*lock.key, lock.state), ("r", LockState::Handed));
            assert!(lock.is_taken() && lock.holders.is_empty(), "{lock:?}");
        }
        return;
    }
    panic!("this machine was later than {CLAIM:?} each time");
}
