use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "raw:<type>:<r#match>", ttl = "1s", guard = r#ref)]
async fn r#move(r#type: u8, r#match: u8) -> Result<u8, LockError> {
    tick().await;
    r#ref.check()?;
    Ok(r#type + r#match)
}

#[distributed_lock(key = "raw:<r#type>/#type", ttl = "1s")]
async fn inserted(r#type: u8) -> Result<u8, LockError> {
    tick().await;
    Ok(r#type)
}

#[tokio::test]
async fn raw_identifiers_work_in_names_keys_and_guards() {
    assert_eq!(locked(r#move(1, 2)).await, Ok(3));
    assert_eq!(locked(inserted(1)).await, Ok(1));
}
