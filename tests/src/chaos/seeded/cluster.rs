//! What happens to a cluster.

use redis::cmd;

use super::scene::{Scene, finish};
use crate::chaos::job::Lane;
use crate::cluster::Setup;

/// So many keys that each master has some.
const KEYS: u32 = 12;

/// One process holds locks on every master, and renews them together; on one of them it may not any more.
pub(super) fn refused_by_one(scene: &Scene) {
    let cluster = Setup::new().start();
    let mut user = cmd("ACL");
    user.arg("SETUSER").arg("first").arg("on").arg(">first");
    cluster.run_everywhere(user.arg("~*").arg("&*").arg("+@all"));
    let url = cluster.url().replace("://", "://first:first@");
    let mut first = Lane::stays("k0", 3_000, 6_000).watched();
    first.keys = (0..KEYS).map(|number| format!("k{number}")).collect();
    first.copies = KEYS;
    first.in_turn = true;
    let first = scene.start(&url, first);
    scene.await_entries(KEYS.into());
    let refusing = cluster.probe_of("lock:k0");
    refusing.run::<()>(cmd("ACL").arg("SETUSER").arg("first").arg("-evalsha"));
    // Whoever has to connect anew renews all that it holds at once. From then on all are due together, however far apart they were taken.
    let mut kill = cmd("CLIENT");
    kill.arg("KILL").arg("USER").arg("first");
    cluster.run_everywhere(&kill);
    let second = Lane::stays("k0", 3_000, 100).waits(10_000);
    finish(scene.start(&cluster.url(), second));
    finish(first);
}
