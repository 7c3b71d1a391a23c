use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

trait Job {
    fn name(&self) -> String;

    #[distributed_lock(key = "job:<self.name()>", ttl = "1s")]
    async fn run(&self) -> Result<String, LockError> {
        tick().await;
        Ok(self.name())
    }
}

struct Nightly;

impl Job for Nightly {
    fn name(&self) -> String {
        "nightly".to_owned()
    }
}

#[tokio::test]
async fn a_default_method_in_a_trait() {
    assert_eq!(locked(Nightly.run()).await.as_deref(), Ok("nightly"));
}
