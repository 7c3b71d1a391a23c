//! Every store does what the engine expects of a lock store.

use std::time::Duration;

use leasehold::__test::{conformance, conformance_of_queues};
use leasehold_tests::rerun::fails_with;
use leasehold_tests::server::Server;

/// The counter of the namespace's fences.
const FENCES: &str = "lock:%leasehold:fence";

#[tokio::test]
async fn memory() {
    conformance("memory://conformance").await;
    conformance_of_queues("memory://conformance").await;
}

/// Fails if the suite does not see that a repeated request leaves the rest of the ttl.
#[test]
fn a_repeat_that_keeps_the_rest_of_its_ttl_is_found() {
    fails_with("RepeatShortened", "store::conformance::redis");
}

/// Fails if the suite does not see that a late renewal lengthens a hold.
#[test]
fn a_kept_key_that_is_still_renewed_is_found() {
    fails_with("KeptTokenStays", "store::conformance::redis");
}

/// Fails if the suite does not see that a late renewal lengthens a share that is kept.
#[test]
fn a_kept_share_that_is_still_renewed_is_found() {
    fails_with("KeptShareStays", "store::conformance::redis");
}

/// Fails if the suite does not see that a permit is free although it is to be kept.
#[test]
fn a_share_that_is_not_kept_is_found() {
    fails_with("ShareNotKept", "store::conformance::redis");
}

#[tokio::test]
async fn redis() {
    let server = Server::start();
    conformance(&server.url()).await;
    let probe = server.probe();
    // Ahead of the server's clock, as after a step back: then nothing but the counter keeps fences
    // apart.
    probe.overwrite(FENCES, "4000000000000000", Duration::from_secs(60));
    conformance(&server.url()).await;
    conformance_of_queues(&server.url()).await;
    assert_eq!(probe.keys("*"), [FENCES], "nothing is left");
}
