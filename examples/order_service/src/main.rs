//! The order service; see the library for what it does.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    order_service::main().await
}
