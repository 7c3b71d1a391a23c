use std::cell::RefCell;
use std::rc::Rc;

use leasehold::{LockError, distributed_lock};
use tokio::task::LocalSet;

use super::support::{locked, tick};

#[distributed_lock(key = "local", ttl = "1s")]
#[allow(clippy::future_not_send, reason = "this is the case")]
async fn push(log: Rc<RefCell<Vec<u8>>>) -> Result<usize, LockError> {
    tick().await;
    log.borrow_mut().push(1);
    let length = log.borrow().len();
    Ok(length)
}

#[tokio::test]
async fn a_future_without_send_runs_on_a_local_set() {
    let log = Rc::new(RefCell::new(Vec::new()));
    let both = async {
        let inner = Rc::clone(&log);
        tokio::task::spawn_local(locked(push(inner))).await.unwrap()
    };
    assert_eq!(LocalSet::new().run_until(both).await, Ok(1));
}
