use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{LockError, distributed_lock};

use super::support::locked;

#[distributed_lock(key = "long", ttl = "10s", watchdog)]
async fn long(argument: Arc<()>, local: Arc<()>) -> Result<(), LockError> {
    let both = (argument, Arc::clone(&local));
    pending::<()>().await;
    drop(both);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_drops_its_arguments() {
    locked(async {
        let (first, second) = (Arc::new(()), Arc::new(()));
        let call = long(Arc::clone(&first), Arc::clone(&second));
        let ended = tokio::time::timeout(Duration::from_millis(10), call).await;
        assert!(ended.is_err());
        assert_eq!(
            (Arc::strong_count(&first), Arc::strong_count(&second)),
            (1, 1)
        );
    })
    .await;
}
