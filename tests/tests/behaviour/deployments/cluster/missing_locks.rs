//! A release that finds the lock gone is told.

use leasehold::LockError;

use super::{SHARED, connect, take};

/// Fails if the answer of a cluster's node is dropped.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_its_node_has_lost_is_missed() {
    let pool = connect(&SHARED.url()).await;
    for key in ["gone:1", "gone:2", "{gone}:3"] {
        let guard = take(&pool, key).await;
        let wire = format!("lock:{key}");
        assert!(SHARED.probe_of(&wire).delete(&wire));
        let released = guard.release().await;
        assert!(
            matches!(&released, Err(LockError::Lost { key: lost, .. }) if lost == key),
            "{released:?}"
        );
        take(&pool, key).await.release().await.expect("there");
    }
}
