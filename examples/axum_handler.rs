//! The attribute on an axum handler, with nothing else around it.
//!
//! Two equal requests arrive at the same time: one makes the order. The other is answered
//! `409 Conflict` with a `Retry-After` header, because `LockError` converts to a response (feature
//! `axum`).
//!
//! ```sh
//! cargo run -p leasehold-order-service --example axum_handler               # sends itself the two requests
//! cargo run -p leasehold-order-service --example axum_handler -- --serve    # http://127.0.0.1:3000/orders/42
//! ```

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::Request;
use axum::response::Response;
use axum::routing::post;
use leasehold::{LockError, distributed_lock};
use tower::ServiceExt as _;

#[distributed_lock(key = "order:<id>", ttl = "10s", watchdog)]
async fn create_order(Path(id): Path<u64>) -> Result<String, LockError> {
    tokio::time::sleep(Duration::from_millis(200)).await; // the payment provider
    Ok(format!("order {id} made\n"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    leasehold::init("memory://").await?; // in production: "redis://127.0.0.1/"
    let app = Router::new().route("/orders/{id}", post(create_order));

    if std::env::args().any(|argument| argument == "--serve") {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
        println!("try: curl -i -X POST http://127.0.0.1:3000/orders/42");
        axum::serve(listener, app).await?;
        return Ok(());
    }

    let (first, second) = tokio::join!(
        app.clone().oneshot(order_42()),
        app.clone().oneshot(order_42())
    );
    describe(&first?);
    describe(&second?);
    describe(&app.oneshot(order_42()).await?); // the lock is free again
    leasehold::shutdown(Duration::from_secs(5)).await;
    Ok(())
}

fn order_42() -> Request<Body> {
    let request = Request::post("/orders/42").body(Body::empty());
    request.expect("a constant request is valid")
}

fn describe(response: &Response) {
    let retry_after = response.headers().get("retry-after");
    println!("{}, Retry-After: {retry_after:?}", response.status());
}
