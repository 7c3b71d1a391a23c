//! Conformance tests, which every store must pass, on Redlock quorums of three and of five servers.

use std::time::Duration;

use leasehold::__test::conformance;

use super::nodes::shared;

async fn conforms(count: usize) {
    let nodes = shared(count, Duration::from_secs(10));
    conformance(&nodes.url_with("max_ttl=1s&node_timeout=3s")).await;
}

#[tokio::test]
async fn three_nodes() {
    conforms(3).await;
}

#[tokio::test]
async fn five_nodes() {
    conforms(5).await;
}
