//! The order service. See the library for its documentation.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    order_service::main().await
}
