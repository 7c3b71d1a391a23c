use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "order:<id>", ttl = "1s")]
async fn create(
    #[cfg(any())] id: Missing,
    #[cfg(not(any()))] id: u64,
    #[cfg(any())] extra: Missing,
    #[cfg(not(any()))] _note: &str,
    #[allow(unused_variables)] ignored: u8,
) -> Result<u64, LockError> {
    tick().await;
    #[cfg(any())]
    drop(extra);
    Ok(id)
}

#[distributed_lock(key = "detached:<id>", ttl = "1s", detach)]
async fn detached(#[cfg(any())] borrowed: &str, id: u64) -> Result<u64, LockError> {
    tick().await;
    Ok(id)
}

struct Line {
    sku: u64,
    #[cfg(not(any()))]
    count: u64,
}

#[distributed_lock(key = "line:<sku>", ttl = "1s")]
async fn fields(
    Line {
        sku,
        #[cfg(any())]
            missing: _missing,
        #[cfg(not(any()))]
        count,
    }: Line,
) -> Result<u64, LockError> {
    tick().await;
    Ok(sku + count)
}

#[tokio::test]
async fn arguments_and_fields_follow_their_cfg() {
    assert_eq!(locked(create(1, "x", 2)).await, Ok(1));
    assert_eq!(locked(detached(4)).await, Ok(4));
    let line = Line { sku: 1, count: 2 };
    assert_eq!(locked(fields(line)).await, Ok(3));
}
