use async_trait::async_trait;
use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[async_trait]
trait Job: Sync {
    fn name(&self) -> String;

    #[distributed_lock(key = "job:<self.name()>:<run>", ttl = "1s")]
    async fn run(&self, run: u32) -> Result<String, LockError> {
        tick().await;
        Ok(format!("{}{run}", self.name()))
    }
}

struct Nightly;

#[async_trait]
impl Job for Nightly {
    fn name(&self) -> String {
        "nightly".to_owned()
    }
}

#[tokio::test]
async fn a_default_method() {
    let job: Box<dyn Job> = Box::new(Nightly);
    assert_eq!(locked(job.run(1)).await.as_deref(), Ok("nightly1"));
}
