//! A process of the earlier version as the other client in the tests of `interop`. Like all clients
//! there, it follows the convention `SET NX PX`.

use std::time::Duration;

use leasehold_tests::earlier_version::{EarlierProcess, Lease, Want, random_hex};
use leasehold_tests::server::Server;

use super::super::{PATIENCE, Peer, TTL};

struct Earlier {
    url: String,
    held: Option<(EarlierProcess, Want, Lease)>,
}

impl Earlier {
    fn process(&self, key: &str) -> EarlierProcess {
        let namespace = key.split_once(':').map_or("", |(namespace, _)| namespace);
        EarlierProcess::connect(&self.url, namespace)
    }
}

impl Peer for Earlier {
    fn acquire(&mut self, key: &str, ttl: Duration) -> bool {
        let (mut process, want) = (self.process(key), Want::alone(key, ttl));
        let lease = process.try_take(&want);
        let taken = lease.is_some();
        if let Some(lease) = lease {
            self.held = Some((process, want, lease));
        }
        taken
    }

    fn wait_for(&mut self, key: &str) -> bool {
        let (mut process, want) = (self.process(key), Want::alone(key, TTL));
        let lease = process.take(&want, PATIENCE);
        self.held = lease.map(|lease| (process, want, lease));
        self.held.is_some()
    }

    fn release(&mut self) -> bool {
        let (mut process, want, lease) = self.held.take().expect("it has one");
        process.release(&want, &lease.token, None)
    }

    fn forge(&mut self, key: &str) -> bool {
        let (mut process, want) = (self.process(key), Want::alone(key, TTL));
        process.release(&want, &random_hex(), None)
    }
}

#[test]
fn the_earlier_version_and_this_one_exclude_each_other() {
    super::super::exclude_each_other(|server: &Server| {
        Box::new(Earlier {
            url: server.url(),
            held: None,
        })
    });
}
