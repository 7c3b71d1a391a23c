use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

/// A type of the program with the name of tokio's task handle.
#[derive(Debug, PartialEq, Eq)]
struct JoinHandle<T>(T);

/// A trait of the program.
trait Stream {
    fn items(&self) -> u64;
}

impl Stream for u64 {
    fn items(&self) -> u64 {
        *self
    }
}

mod renamed {
    pub(super) use super::Stream as Supply;
}

type Joint = JoinHandle<u64>;

#[distributed_lock(key = "joint:<id>", ttl = "1s")]
async fn joint(id: u64) -> Result<Joint, LockError> {
    tick().await;
    Ok(JoinHandle(id))
}

#[distributed_lock(key = "supply:<id>", ttl = "1s")]
async fn supply(id: u64) -> Result<impl renamed::Supply, LockError> {
    tick().await;
    Ok(id)
}

/// Fails if a function cannot return a type of the program that has the name of a task or a stream.
#[tokio::test]
async fn a_type_named_like_a_task_can_be_returned() {
    locked(async {
        assert_eq!(joint(1).await, Ok(JoinHandle(1)));
        let supply = supply(2).await.map(|supply| supply.items());
        assert_eq!(supply, Ok(2));
    })
    .await;
}
