use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "unit", ttl = "1s", on_error = |error| panic!("{error}"))]
async fn nothing(done: &mut bool) {
    tick().await;
    *done = true;
}

#[distributed_lock(key = "unit", ttl = "1s", on_error = drop)]
#[allow(clippy::unused_unit, reason = "this is the case")]
async fn written(done: &mut bool) -> () {
    tick().await;
    *done = true;
}

#[distributed_lock(key = "unit", ttl = "1s")]
async fn result(done: &mut bool) -> Result<(), LockError> {
    tick().await;
    *done = true;
    Ok(())
}

#[distributed_lock(key = "unit", ttl = "1s", on_error = drop)]
async fn empty() {}

#[tokio::test]
async fn functions_without_a_result_can_lock() {
    locked(async {
        let (mut a, mut b, mut c) = (false, false, false);
        nothing(&mut a).await;
        written(&mut b).await;
        result(&mut c).await.unwrap();
        empty().await;
        assert!(a && b && c);
    })
    .await;
}
