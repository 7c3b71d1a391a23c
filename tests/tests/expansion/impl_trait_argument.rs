use std::fmt::Display;

use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "order:<id>:<name.as_ref()>", ttl = "1s")]
async fn create(
    id: impl Display + Copy,
    name: impl AsRef<str>,
    make: impl Fn(u8) -> u8,
) -> Result<String, LockError> {
    tick().await;
    Ok(format!("{id}{}{}", name.as_ref(), make(1)))
}

#[tokio::test]
async fn an_impl_trait_argument_is_usable_in_key_and_body() {
    let text = locked(create(5, String::from("lamp"), |n| n + 1)).await;
    assert_eq!(text.as_deref(), Ok("5lamp2"));
}
