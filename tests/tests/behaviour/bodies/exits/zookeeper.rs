//! Every way in which an annotated function can end, with the locks in a real ZooKeeper.

use leasehold_tests::zookeeper::Zookeeper;

use super::{Store, ways_out};

ways_out! {
    Store::of_sessions::<Zookeeper>(),
    the_lock_is_stolen: Stolen,
}
