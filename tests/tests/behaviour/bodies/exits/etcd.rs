//! Every way in which an annotated function can end, with the locks in a real etcd.

use leasehold_tests::etcd::Etcd;

use super::{Store, ways_out};

ways_out! {
    Store::of_sessions::<Etcd>(),
    the_lock_is_stolen: Stolen,
}
