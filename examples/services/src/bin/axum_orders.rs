//! Orders over HTTP, with axum. A second click is refused while the first one is processed.
//!
//! ```sh
//! LEASEHOLD_URL=redis://127.0.0.1/ cargo run -p leasehold-services --bin axum_orders
//! curl -i -X POST http://127.0.0.1:3000/orders/42
//! ```
//!
//! It needs `axum`, `leasehold` with the feature `axum`, `thiserror` and `tokio`.

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use leasehold::{LockError, distributed_lock};
use leasehold_services::{listen_address, payments, stop_requested};
use tokio::net::TcpListener;

/// Makes an order. The lock refuses a second click *while* the first one is processed. To refuse a
/// later click as well, give the table of orders a unique key, as in `examples/order_service`.
#[distributed_lock(key = "order:<id>", ttl = "10s", watchdog)]
async fn create_order(Path(id): Path<String>) -> Result<(StatusCode, String), OrderError> {
    payments::charge(&id).await?;
    Ok((StatusCode::CREATED, format!("order {id} is made\n")))
}

/// Errors that a handler can return.
#[derive(Debug, thiserror::Error)]
enum OrderError {
    /// The attribute converts its own errors to this variant, by `From`.
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("the payment provider: {0}")]
    Payment(#[from] std::io::Error),
}

impl IntoResponse for OrderError {
    fn into_response(self) -> Response {
        eprintln!("{self}"); // the log has the key and the advice, the client gets neither
        match self {
            Self::Lock(error) => error.into_response(),
            Self::Payment(_) => (StatusCode::BAD_GATEWAY, "no payment\n").into_response(),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    leasehold::init_from_env().await?; // a service without its locks does not start
    let app = Router::new().route("/orders/{id}", post(create_order));
    let stop = stop_requested()?;
    let listener = TcpListener::bind(listen_address()).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(stop)
        .await?;
    // The server has stopped, so no handler holds a lock. Some releases may still be under way, and
    // this call waits for them.
    leasehold::shutdown(Duration::from_secs(5)).await;
    Ok(())
}
