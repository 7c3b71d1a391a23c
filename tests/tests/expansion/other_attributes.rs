use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

/// This documentation must stay on the function.
#[must_use = "the number matters"]
#[inline]
#[distributed_lock(key = "a", ttl = "1s", on_error = |_| 0)]
#[allow(clippy::missing_panics_doc)]
pub(crate) async fn number() -> u8 {
    tick().await;
    4
}

#[distributed_lock(key = "a", ttl = "1s")]
#[cfg(not(any()))]
#[deprecated = "use `number`"]
async fn present() -> Result<u8, LockError> {
    tick().await;
    Ok(1)
}

#[distributed_lock(key = "a", ttl = "1s")]
#[cfg(any())]
async fn absent() -> Missing {}

#[cfg_attr(not(any()), distributed_lock(key = "a", ttl = "1s"))]
async fn conditional() -> Result<u8, LockError> {
    tick().await;
    Ok(2)
}

#[distributed_lock(key = "a", ttl = "1s")]
#[expect(unused_variables, reason = "the lint sees the body as it is")]
async fn expected(unused: u8) -> Result<u8, LockError> {
    tick().await;
    Ok(3)
}

#[tokio::test]
async fn other_attributes_stay_on_the_function() {
    locked(async {
        assert_eq!(number().await, 4);
        #[expect(deprecated)]
        let present = present().await;
        assert_eq!(present, Ok(1));
        assert_eq!(conditional().await, Ok(2));
        assert_eq!(expected(0).await, Ok(3));
    })
    .await;
}
