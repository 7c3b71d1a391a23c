//! Tests with other clients of the same ensemble, while the pool logs in as a user.

use std::time::Duration;

use leasehold_tests::session_server::SessionServer as _;
use leasehold_tests::zookeeper::Zookeeper;

use super::TTL;
use crate::deployments::all_are_renewed;
use crate::deployments::session_servers::{LONG, connect_patiently};

/// Fails if a client without a login, or with the login of another user, can remove a holder's
/// znode. Also fails if such a client can create a znode ahead of the holder's znode in the queue.
#[tokio::test]
async fn another_user_cannot_affect_a_lock() {
    let server = Zookeeper::start();
    let url = server.url("shop");
    let url = url.replace("zookeeper://", "zookeeper://service:hunter2@");
    let pool = connect_patiently(&url).await;
    let request = pool.lock("k").ttl(TTL).wait(LONG);
    let request = request.watchdog_every(Duration::from_millis(200));
    let guards = [request.acquire().await.expect("free")];
    let (owner, nobody, another) = (server.client(), server.client(), server.client());
    owner.introduce("service", "hunter2");
    another.introduce("another", "hunter2");
    let directory = "/shop/lock:k";
    let names = owner.names(directory);
    let [held] = &names[..] else {
        panic!("one holder was expected: {names:?}");
    };
    for client in [nobody, another] {
        assert!(client.may_not_delete(&format!("{directory}/{held}")));
        assert!(client.may_not_make(&format!("{directory}/_c_x-lock-0000000000")));
    }
    all_are_renewed(&guards).await;
}
