use leasehold::{LockError, distributed_lock};

use super::support::{pool, tick};

#[distributed_lock(key = "port:5432", ttl = "1s", pool = pool().await)]
#[tokio::test]
async fn the_attribute_works_above_the_test_attribute() -> Result<(), LockError> {
    tick().await;
    Ok(())
}

#[distributed_lock(key = "port:5432", ttl = "1s", pool = pool().await, on_error = |e| panic!("{e}"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[should_panic(expected = "from the body")]
async fn the_attribute_works_with_should_panic() {
    tick().await;
    panic!("from the body");
}
