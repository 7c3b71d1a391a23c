use leasehold::{LockError, LockPool, distributed_lock};
use rstest::{fixture, rstest};

use super::support::{pool, tick};

#[fixture]
async fn locks() -> LockPool {
    pool().await
}

#[distributed_lock(key = "case:<n>", ttl = "1s", pool = locks)]
#[rstest]
#[case(1, 2)]
#[case(2, 3)]
#[tokio::test]
async fn cases(
    #[case] n: u8,
    #[case] next: u8,
    #[future(awt)] locks: LockPool,
) -> Result<(), LockError> {
    tick().await;
    assert_eq!(n + 1, next);
    Ok(())
}
