use std::time::Duration;

use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

const TTL: Duration = Duration::from_secs(2);

struct Settings {
    ttl: Duration,
}

#[distributed_lock(key = "a", ttl = TTL, wait = "0s")]
async fn constant() -> Result<(), LockError> {
    tick().await;
    Ok(())
}

#[distributed_lock(key = "a", ttl = settings.ttl, watchdog = settings.ttl / 4, max_hold = settings.ttl * 3, wait = TTL)]
async fn from_an_argument(settings: &Settings) -> Result<(), LockError> {
    tick().await;
    Ok(())
}

#[distributed_lock(key = "a", ttl = TTL, wait = if soon { TTL } else { TTL * 2 } / 2)]
async fn chosen(soon: bool) -> Result<(), LockError> {
    tick().await;
    Ok(())
}

#[distributed_lock(
    key = "a",
    ttl = "1m30s",
    watchdog = "20s",
    max_hold = "1h",
    wait = "250ms"
)]
async fn combined() -> Result<(), LockError> {
    tick().await;
    Ok(())
}

#[distributed_lock(key = "a", ttl = "24h", watchdog, max_hold = "24h")]
async fn longest() -> Result<(), LockError> {
    tick().await;
    Ok(())
}

#[tokio::test]
async fn literals_and_expressions() {
    locked(async {
        constant().await.unwrap();
        from_an_argument(&Settings { ttl: TTL }).await.unwrap();
        chosen(true).await.unwrap();
        combined().await.unwrap();
        longest().await.unwrap();
    })
    .await;
}
