//! Three ways for a function to report that it could not run inside its lock.
//!
//! ```sh
//! cargo run --example custom_error
//! ```

use std::error::Error;
use std::time::Duration;

use leasehold::{LockError, distributed_lock};

/// 1. Your own error type with `From<LockError>`, which `thiserror` can generate.
#[derive(Debug, thiserror::Error)]
enum OrderError {
    #[error("the cart is empty")]
    EmptyCart,
    #[error(transparent)]
    Lock(#[from] LockError),
}

#[distributed_lock(key = "order:<id>", ttl = "10s")]
async fn create_order(id: u64, items: &[&str]) -> Result<String, OrderError> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    let first = items.first().ok_or(OrderError::EmptyCart)?;
    Ok(format!("order {id}: {first} and {} more", items.len() - 1))
}

/// 2. A `Result` with a fixed error type: `on_error` creates the value to return. Clients may see
/// the `public_message`. The text of the error itself names the key, so it is only for the log.
#[distributed_lock(key = "order:<id>", ttl = "10s", on_error = |error| Err(error.public_message()))]
async fn cancel_order(id: u64) -> Result<(), &'static str> {
    Ok(())
}

/// 3. No `Result` at all: `on_error` creates the value here, too. The constructor of the variant
///    `NotNow` is a function, so it can be the value of `on_error`.
#[derive(Debug)]
enum Reminder {
    Sent,
    NotNow(LockError),
}

#[distributed_lock(key = "order:<id>", ttl = "10s", on_error = Reminder::NotNow)]
async fn remind(id: u64) -> Reminder {
    println!("your order {id} is waiting");
    Reminder::Sent
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    leasehold::init("memory://").await?; // in production: "redis://127.0.0.1/"

    let (order, cancelled, reminder) = tokio::join!(
        create_order(42, &["kettle", "cup"]),
        cancel_order(42),
        remind(42),
    );
    println!("made:      {order:?}");
    println!("cancelled: {cancelled:?}");
    match reminder {
        Reminder::Sent => println!("reminder:  sent"),
        Reminder::NotNow(error) => println!("reminder:  not now, {error}"),
    }

    match create_order(43, &[]).await {
        Err(OrderError::EmptyCart) => println!("order 43: {}", OrderError::EmptyCart),
        other => println!("order 43: {other:?}"),
    }
    leasehold::shutdown(Duration::from_secs(5)).await;
    Ok(())
}
