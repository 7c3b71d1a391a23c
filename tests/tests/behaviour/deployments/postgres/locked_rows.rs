//! Rows that somebody else has locked cost their own key its lease, and no other key.

use std::time::Duration;

use leasehold::{LockGuard, LockPool};
use leasehold_tests::postgres::Postgres;
use leasehold_tests::{rerun::fails_with, wait};

use super::{LONG, connect, take};

/// Of leases that a watchdog keeps while a row is locked.
const TTL: Duration = Duration::from_secs(2);
const KEYS: u32 = 20;

/// Fails if a row that a person has locked in a session costs another key its lease, or keeps new
/// locks from being taken and released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_row_costs_no_other_lease() {
    let database = Postgres::shared().migrated();
    let pool = connect(&database).await;
    let held = hold_all(&pool).await;
    let mut person = database.client().await;
    let looking = person.transaction().await.expect("it begins");
    let row = "SELECT * FROM leasehold.locks WHERE key = 'lock:held-0' FOR UPDATE";
    looking.query(row, &[]).await.expect("the row is there");
    let lost = held[0].handle();
    wait::within("its own lease ends", LONG, lost.lost()).await;
    // Longer than the leases, and past the time in which calls leave out locked rows.
    let ends = tokio::time::Instant::now() + TTL * 3;
    let mut taken = 0;
    while tokio::time::Instant::now() < ends {
        let guard = take(&pool, &format!("new-{taken}")).await;
        guard.release().await.expect("still held");
        taken += 1;
    }
    for guard in &held[1..] {
        guard.check().unwrap_or_else(|error| panic!("{error}"));
    }
    println!("{taken} locks taken beside the locked row");
    looking.rollback().await.expect("it ends");
    for guard in held.into_iter().skip(1) {
        guard.release().await.expect("still held");
    }
    take(&pool, "held-0").await.release().await.expect("free");
}

/// All at once, so that their renewals leave together.
async fn hold_all(pool: &LockPool) -> Vec<LockGuard> {
    let taking = (0..KEYS).map(|number| {
        let lock = pool.lock(format!("held-{number}")).ttl(TTL).wait(LONG);
        lock.watchdog().acquire()
    });
    let taken = futures_util::future::try_join_all(taking).await;
    taken.expect("they are free")
}

/// Fails if the test above does not see that a locked row fails all that is asked beside it.
#[test]
fn a_row_that_fails_all_is_found() {
    fails_with(
        "LockedRowFailsAll",
        "deployments::postgres::locked_rows::a_locked_row_costs_no_other_lease",
    );
}
