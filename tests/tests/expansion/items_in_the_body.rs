use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "outer:<n>", ttl = "1s")]
async fn outer(n: u64) -> Result<u64, LockError> {
    #![allow(clippy::similar_names)]
    use std::ops::Add;

    const STEP: u64 = 1;

    struct Number(u64);

    impl Add for Number {
        type Output = Self;

        fn add(self, other: Self) -> Self {
            Self(self.0 + other.0)
        }
    }

    #[distributed_lock(key = "inner:<n>", ttl = "1s")]
    async fn inner(n: u64) -> Result<u64, LockError> {
        tick().await;
        Ok(n)
    }

    let again = async || inner(n).await;
    let labelled = 'found: {
        if n > 0 {
            break 'found n;
        }
        0
    };
    Ok((Number(again().await?) + Number(STEP)).0 + labelled)
}

#[tokio::test]
async fn nested_items_and_functions() {
    assert_eq!(locked(outer(3)).await, Ok(7));
}
