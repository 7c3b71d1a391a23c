//! The order service: `POST /orders`, `POST /items/{sku}/buy`, and a page with a double click.
//!
//! ```sh
//! cargo run --release -p leasehold-order-service --example order_service -- --demo
//! LEASEHOLD_URL=memory:// cargo run --release -p leasehold-order-service --example order_service
//! LEASEHOLD_URL=redis://127.0.0.1/ cargo run --release -p leasehold-order-service --example order_service -- --listen 127.0.0.1:3001
//! ```

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    order_service::main().await
}
