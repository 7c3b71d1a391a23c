//! Every way out of an annotated function, with the locks in a real ZooKeeper.

use std::sync::Arc;

use leasehold_tests::zookeeper::Zookeeper;

use super::{Store, ways_out};

fn store() -> Store {
    let server = Zookeeper::shared();
    Store {
        url: server.url("exits"),
        probe: Arc::new(server.probe("exits", "lock:")),
    }
}

ways_out! {
    store(),
    the_lock_is_stolen: Stolen,
}
