use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

/// A type of the user, with the name of tokio's task handle.
#[derive(Debug, PartialEq, Eq)]
struct JoinHandle<T>(T);

/// A trait of the user, with the usual name of a trait for asynchronous streams.
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

mod market {
    /// A type of the user, with the name of a standard type without fields.
    pub(super) struct Option {
        pub(super) id: u64,
    }
}

#[distributed_lock(key = "option:<option.id>", ttl = "1s")]
async fn exercise(option: market::Option) -> Result<u64, LockError> {
    tick().await;
    Ok(option.id)
}

#[tokio::test]
async fn fields_of_a_type_named_like_a_standard_type_are_usable() {
    let option = market::Option { id: 3 };
    assert_eq!(locked(exercise(option)).await, Ok(3));
}

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

/// The macro rejects return types such as `JoinHandle<T>` and `impl Stream` by their names, because
/// their work may outlive the lock. Fails if the user's own types with these names cannot be
/// returned under an alias.
#[tokio::test]
async fn a_type_named_like_a_task_can_be_returned() {
    locked(async {
        assert_eq!(joint(1).await, Ok(JoinHandle(1)));
        let supply = supply(2).await.map(|supply| supply.items());
        assert_eq!(supply, Ok(2));
    })
    .await;
}
