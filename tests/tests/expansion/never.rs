use std::convert::Infallible;
use std::time::Duration;

use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "worker", ttl = "1s", watchdog, on_error = |error| panic!("{error}"))]
async fn forever(step: Duration) -> ! {
    loop {
        tokio::time::sleep(step).await;
    }
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "`on_error` gives the error away"
)]
fn give_up(error: LockError) -> ! {
    panic!("{error}")
}

#[distributed_lock(key = "worker", ttl = "1s", on_error = give_up)]
async fn panics() -> ! {
    tick().await;
    panic!("stop")
}

#[distributed_lock(key = "worker", ttl = "1s", watchdog)]
async fn infallible() -> Result<Infallible, LockError> {
    loop {
        tick().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_without_end_can_be_dropped() {
    let limit = Duration::from_millis(20);
    locked(async {
        let forever = forever(Duration::from_millis(5));
        assert!(tokio::time::timeout(limit, forever).await.is_err());
        tokio::select! {
            biased;
            _ = infallible() => unreachable!("it has no end"),
            () = tick() => {}
        }
    })
    .await;
}

#[tokio::test]
#[should_panic(expected = "stop")]
async fn a_panic_of_a_body_reaches_the_caller() {
    locked(async { panics().await }).await;
}
