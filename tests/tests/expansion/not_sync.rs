use std::cell::Cell;

use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

/// The expansion must move these arguments into the future of the body. `Cell` is not `Sync`, so a
/// reference across an await would make the future not `Send`.
#[distributed_lock(key = "cell", ttl = "1s")]
async fn next(_first: Cell<u8>, counter: Cell<u8>) -> Result<u8, LockError> {
    tick().await;
    counter.set(counter.get() + 1);
    Ok(counter.get())
}

#[tokio::test]
async fn an_argument_need_not_be_sync() {
    let task = tokio::spawn(locked(next(Cell::new(0), Cell::new(1))));
    assert_eq!(task.await.unwrap(), Ok(2));
}
