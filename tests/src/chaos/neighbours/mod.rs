//! Scenes of requirement 38: leases must last in spite of other users of the server. In some scenes
//! another user with few rights disturbs the server. In other scenes the server grants fewer rights
//! or shorter sessions than before, or one packet cannot carry the requests of all waiting calls.
//!
//! | file | contents |
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

pub(super) fn of(store: Store) -> &'static [Scene] {
    match store {
        Store::Postgres => postgres::SCENES,
        Store::Etcd => etcd::SCENES,
        Store::Zookeeper => zookeeper::SCENES,
        _ => redis::SCENES,
    }
}
