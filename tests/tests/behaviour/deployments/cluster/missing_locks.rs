//! Tests that a release reports a missing lock.

use std::time::Duration;

use leasehold::LockError;
use leasehold_tests::lateness::Excuse;

use super::{SHARED, connect, take};

/// Longest time for which a release waits for its answer. A release without an answer does not
/// report a missing lock.
const ANSWER: Duration = Duration::from_secs(1);

/// The key of a held lock is deleted on its node. Fails if the release does not report the lock as
/// lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_reports_a_lock_missing_on_its_node() {
    let pool = connect(&SHARED.url()).await;
    for key in ["gone:1", "gone:2", "{gone}:3"] {
        let guard = take(&pool, key).await;
        let wire = format!("lock:{key}");
        assert!(SHARED.probe_of(&wire).delete(&wire));
        let excuse = Excuse::begin();
        let released = guard.release().await;
        let reported = matches!(&released, Err(LockError::Lost { key: lost, .. }) if lost == key);
        let is_late = ANSWER < excuse.so_far();
        assert!(reported || is_late && released.is_ok(), "{released:?}");
        take(&pool, key).await.release().await.expect("there");
    }
}
