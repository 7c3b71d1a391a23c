//! Every way out of an annotated function, with the locks in a real etcd.

use std::sync::Arc;

use leasehold_tests::etcd::Etcd;

use super::{Store, ways_out};

fn store() -> Store {
    let server = Etcd::shared();
    Store {
        url: server.url("exits"),
        probe: Arc::new(server.probe("exits", "lock:")),
    }
}

ways_out! {
    store(),
    the_lock_is_stolen: Stolen,
}
