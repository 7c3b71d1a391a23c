use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

struct Job {
    name: String,
    runs: u32,
}

impl Job {
    #[distributed_lock(key = "job:<self.name>", ttl = "1s")]
    async fn boxed(self: Box<Self>) -> Result<u32, LockError> {
        tick().await;
        Ok(self.runs)
    }

    #[distributed_lock(key = "job:<self.name>", ttl = "1s")]
    #[allow(clippy::future_not_send, reason = "so is every `Rc`")]
    async fn counted(self: Rc<Self>) -> Result<usize, LockError> {
        tick().await;
        Ok(Rc::strong_count(&self))
    }

    #[distributed_lock(key = "job:<self.name>", ttl = "1s")]
    async fn shared(self: Arc<Self>) -> Result<u32, LockError> {
        tick().await;
        Ok(self.runs + 1)
    }

    #[distributed_lock(key = "job:<self.name>", ttl = "1s")]
    async fn pinned(self: Pin<&mut Self>) -> Result<(), LockError> {
        tick().await;
        self.get_mut().runs += 1;
        Ok(())
    }

    #[distributed_lock(key = "job:<self.name>", ttl = "1s")]
    async fn borrowed(self: &Arc<Self>) -> Result<u32, LockError> {
        tick().await;
        Ok(self.runs)
    }
}

const fn job(name: String) -> Job {
    Job { name, runs: 3 }
}

#[tokio::test]
async fn every_receiver() {
    locked(async {
        assert_eq!(Box::new(job("a".into())).boxed().await, Ok(3));
        assert_eq!(Rc::new(job("a".into())).counted().await, Ok(1));
        let shared = Arc::new(job("a".into()));
        assert_eq!(shared.borrowed().await, Ok(3));
        assert_eq!(shared.shared().await, Ok(4));
        let mut pinned = job("a".into());
        Pin::new(&mut pinned).pinned().await.unwrap();
        assert_eq!(pinned.runs, 4);
    })
    .await;
}
