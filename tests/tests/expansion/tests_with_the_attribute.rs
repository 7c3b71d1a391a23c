use std::sync::LazyLock;

use leasehold::{LockError, LockPool, distributed_lock};
use tokio::runtime::Runtime;

use super::support::{pool, tick};

/// A path to the test attribute, as in crates with a test attribute of their own.
mod test_log {
    pub(crate) use ::core::prelude::v1::test;
}

fn connected() -> LockPool {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));
    RUNTIME.block_on(pool())
}

#[distributed_lock(key = "port:5432", ttl = "1s", pool = connected())]
#[test_log::test]
fn the_attribute_works_above_a_synchronous_test() -> Result<(), LockError> {
    Ok(())
}

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
