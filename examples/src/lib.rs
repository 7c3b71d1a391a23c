//! Small programs to copy from. Each one is an example target:
//!
//! ```sh
//! cargo run --release --example flash_sale
//! cargo run -p leasehold-order-service --example axum_handler
//! cargo run --example trait_method
//! cargo run --example background_job
//! cargo run --example custom_error
//! cargo run --example bank_transfer
//! cargo run --example double_click
//! cargo run --example read_mostly_catalog
//! cargo run --example rate_of_n
//! cargo run --example blocking
//! cargo run --example leader
//! ```
//!
//! These programs need no server. The order service, which uses a database, is in
//! `examples/order_service`. Small services for axum, actix-web, tonic, cron and sqlx are in
//! `examples/services`.
