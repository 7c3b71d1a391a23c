use std::rc::Rc;

use async_trait::async_trait;
use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[async_trait(?Send)]
trait Local {
    async fn run(&self, value: Rc<u8>) -> Result<u8, LockError>;
}

struct Here;

#[async_trait(?Send)]
impl Local for Here {
    #[distributed_lock(key = "here:<value>", ttl = "1s")]
    async fn run(&self, value: Rc<u8>) -> Result<u8, LockError> {
        tick().await;
        Ok(*value)
    }
}

#[tokio::test]
async fn a_future_need_not_be_send() {
    assert_eq!(locked(Here.run(Rc::new(3))).await, Ok(3));
}
