//! The tests that every store must pass, on a cluster.

use leasehold::__test::{conformance, conformance_of_queues, interleave};
use leasehold_tests::random::Random;

use super::SHARED;

#[tokio::test]
async fn one_lock() {
    conformance(&SHARED.url()).await;
}

#[tokio::test]
async fn queues() {
    conformance_of_queues(&SHARED.url()).await;
}

/// Fails if a request of one client changes another client's lock, shared lock or place in a queue.
#[tokio::test]
async fn clients_do_not_affect_tokens_of_other_clients() {
    let seed = Random::seeded("many clients of a cluster").below(1 << 32);
    let compared = interleave(&SHARED.url(), seed, 20_000).await;
    compared.unwrap_or_else(|difference| panic!("{difference}"));
}
