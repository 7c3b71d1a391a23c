use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "order:<id>", ttl = "10s", watchdog)]
async fn create(id: u64, name: &str, quantity: Option<u32>) -> Result<String, LockError> {
    tick().await;
    let Some(quantity) = quantity else {
        return Ok("none".to_owned());
    };
    Ok(format!("{id}{name}{quantity}"))
}

#[tokio::test]
async fn a_free_function_runs_with_its_arguments() {
    let text = locked(create(7, "lamp", Some(2))).await;
    assert_eq!(text.as_deref(), Ok("7lamp2"));
    assert_eq!(locked(create(7, "lamp", None)).await.as_deref(), Ok("none"));
}
