use std::fmt::{Debug, Display};

use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "thing:<id>", ttl = "1s")]
async fn thing<I: Display, T>(id: I, value: T) -> Result<String, LockError>
where
    T: Debug + Clone,
{
    tick().await;
    Ok(format!("{id}{value:?}"))
}

#[distributed_lock(key = "sum", ttl = "1s")]
async fn sum<const N: usize>(numbers: [u64; N]) -> Result<u64, LockError> {
    tick().await;
    Ok(numbers.iter().sum())
}

struct Shelf<T>(Vec<T>);

impl<T: Display> Shelf<T> {
    #[distributed_lock(key = "shelf:<label>", ttl = "1s")]
    async fn put<L>(&mut self, label: L, item: T) -> Result<usize, LockError>
    where
        L: Display,
    {
        tick().await;
        self.0.push(item);
        Ok(self.0.len())
    }
}

#[tokio::test]
async fn type_and_const_parameters() {
    locked(async {
        assert_eq!(thing(1_u8, "x").await.as_deref(), Ok("1\"x\""));
        assert_eq!(sum([1, 2, 3]).await, Ok(6));
        let mut shelf = Shelf(vec![1]);
        assert_eq!(shelf.put("left", 2).await, Ok(2));
    })
    .await;
}
