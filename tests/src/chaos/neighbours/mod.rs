//! Scenes of requirement 38: leases beside neighbours with few rights, servers that grant less, and
//! more of everything than a protocol carries at once.
//!
//! | file | noun |
//! |---|---|
//! | `redis`, `postgres`, `etcd`, `zookeeper` | the scenes of each server |
//! | `tenants` | the leases that must last |
//! | `crowd` | many waiting calls, on each server |

mod crowd;
mod etcd;
mod postgres;
mod redis;
mod tenants;
mod zookeeper;

use super::ground::Ground;
use super::sheet::Sheet;
use super::store::Store;

/// A scene, and its name in the results.
type Scene = (&'static str, fn(&Ground, &Sheet));

/// Returns the scenes of a store.
pub(super) fn of(store: Store) -> &'static [Scene] {
    match store {
        Store::Postgres => postgres::SCENES,
        Store::Etcd => etcd::SCENES,
        Store::Zookeeper => zookeeper::SCENES,
        _ => redis::SCENES,
    }
}
