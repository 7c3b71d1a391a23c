use std::error::Error;
use std::fmt;

use leasehold::{LockError, distributed_lock};

use super::support::locked;

#[derive(Debug, PartialEq)]
enum OrderError {
    Lock(LockError),
    Empty,
}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Error for OrderError {}

impl From<LockError> for OrderError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

type OrderResult<T> = Result<T, OrderError>;

#[distributed_lock(key = "order:<id>", ttl = "1s")]
async fn custom(id: &str) -> OrderResult<u8> {
    if id == "0" {
        Err(OrderError::Empty)?;
    }
    Ok(1)
}

#[distributed_lock(key = "order:<id>", ttl = "1s")]
async fn boxed(id: &str) -> Result<u8, Box<dyn Error + Send + Sync>> {
    Ok(id.parse()?)
}

#[distributed_lock(key = "order:<id>", ttl = "1s")]
async fn inferred<E: From<LockError> + From<std::num::ParseIntError>>(id: &str) -> Result<u8, E> {
    Ok(id.parse::<u8>()?)
}

#[tokio::test]
async fn error_types_can_contain_a_lock_error() {
    locked(async {
        assert_eq!(custom("1").await, Ok(1));
        assert_eq!(custom("0").await, Err(OrderError::Empty));
        let refused = custom("").await;
        assert!(matches!(
            refused,
            Err(OrderError::Lock(LockError::InvalidKey { .. }))
        ));
        assert_eq!(boxed("2").await.unwrap(), 2);
        assert!(boxed("two").await.is_err());
        let error = boxed("").await.unwrap_err();
        assert!(error.downcast_ref::<LockError>().is_some());
        assert_eq!(inferred::<Box<dyn Error>>("3").await.unwrap(), 3);
    })
    .await;
}
