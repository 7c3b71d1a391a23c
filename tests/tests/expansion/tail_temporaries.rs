use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

type Log = Arc<Mutex<Vec<&'static str>>>;

struct Traced(&'static str, Log);

impl Traced {
    const fn value(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

#[distributed_lock(key = "tail", ttl = "1s", on_error = |_| 0)]
#[allow(tail_expr_drop_order, reason = "this is the case")]
async fn with_the_lock(log: Log) -> usize {
    tick().await;
    let _local = Traced("local", Arc::clone(&log));
    Traced("temporary", log).value()
}

#[allow(tail_expr_drop_order, reason = "this is the case")]
async fn without(log: Log) -> usize {
    tick().await;
    let _local = Traced("local", Arc::clone(&log));
    Traced("temporary", log).value()
}

#[distributed_lock(key = "tail", ttl = "1s")]
#[allow(clippy::future_not_send, reason = "a `RefCell` is not `Sync`")]
async fn borrowed(cell: &RefCell<u8>) -> Result<u8, LockError> {
    tick().await;
    Ok(*cell.borrow())
}

/// The edition decides whether temporaries at the end of a body are dropped before or after the
/// locals. Fails if the attribute uses the order of its own edition instead of the user's.
#[tokio::test]
async fn temporaries_are_dropped_in_the_order_of_the_edition() {
    locked(async {
        let (with, plain) = (Log::default(), Log::default());
        assert_eq!(with_the_lock(Arc::clone(&with)).await, 9);
        assert_eq!(without(Arc::clone(&plain)).await, 9);
        assert_eq!(*with.lock().unwrap(), *plain.lock().unwrap());
        assert_eq!(borrowed(&RefCell::new(3)).await, Ok(3));
    })
    .await;
}
