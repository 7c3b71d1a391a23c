//! Every store does what the engine expects of a lock store.

use leasehold::__test::{conformance, conformance_of_queues};
use leasehold_tests::server::Server;

#[tokio::test]
async fn memory() {
    conformance("memory://conformance").await;
    conformance_of_queues("memory://conformance").await;
}

#[tokio::test]
async fn redis() {
    let server = Server::start();
    conformance(&server.url()).await;
    conformance_of_queues(&server.url()).await;
    let probe = server.probe();
    assert_eq!(
        probe.keys("*"),
        ["lock:%leasehold:fence"],
        "nothing is left"
    );
}
