//! What every store must do.

use leasehold::__test::{conformance, conformance_of_queues};

use super::SHARED;

#[tokio::test]
async fn one_lock() {
    conformance(&SHARED.url()).await;
}

#[tokio::test]
async fn queues() {
    conformance_of_queues(&SHARED.url()).await;
}
