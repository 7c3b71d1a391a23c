use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[derive(Clone)]
struct Account {
    id: u64,
    cents: u64,
}

impl Account {
    #[distributed_lock(key = "account:<self.id>", ttl = "1s")]
    async fn balance(&self) -> Result<u64, LockError> {
        tick().await;
        Ok(self.cents)
    }

    #[distributed_lock(key = "account:<self.id>", ttl = "1s")]
    async fn deposit(&mut self, cents: u64) -> Result<(), LockError> {
        tick().await;
        self.cents += cents;
        Ok(())
    }

    #[distributed_lock(key = "account:<self.id>", ttl = "1s")]
    async fn close(self) -> Result<u64, LockError> {
        tick().await;
        Ok(self.cents)
    }

    #[distributed_lock(key = "account:<self.id>", ttl = "1s")]
    async fn doubled(mut self) -> Result<Self, LockError> {
        tick().await;
        self.cents *= 2;
        Ok(self)
    }

    #[distributed_lock(key = "accounts", ttl = "1s")]
    async fn open(id: u64) -> Result<Self, LockError> {
        tick().await;
        Ok(Self { id, cents: 0 })
    }
}

#[tokio::test]
async fn every_receiver() {
    locked(async {
        let mut account = Account::open(1).await.unwrap();
        account.deposit(5).await.unwrap();
        assert_eq!(account.balance().await, Ok(5));
        let twice = account.clone().doubled().await.unwrap();
        assert_eq!(twice.close().await, Ok(10));
        assert_eq!(account.close().await, Ok(5));
    })
    .await;
}
