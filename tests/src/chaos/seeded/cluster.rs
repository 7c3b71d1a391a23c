//! Scenarios on a Redis Cluster.

use redis::cmd;

use super::scene::{Scene, finish};
use crate::chaos::job::Lane;
use crate::cluster::Setup;
use crate::oracle::Note;

/// Number of keys. With this number, each master has some of the keys.
const KEYS: u32 = 12;

/// Lets a process hold locks on every master. Then one master refuses the renewals of its locks,
/// which the process sends in one batch with all others. With the bug, the process counts these
/// locks as renewed.
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
    // The next command ends the first worker's connections. After the reconnect, the worker renews
    // all its locks in one batch, although it took them at different times.
    let mut kill = cmd("CLIENT");
    kill.arg("KILL").arg("USER").arg("first");
    cluster.run_everywhere(&kill);
    let second = Lane::stays("k0", 3_000, 100).waits(10_000);
    finish(scene.start(&cluster.url(), second));
    finish(first);
}

/// Lets a process hold many locks on one master and a few on the others. One of the many locks is
/// deleted, and the process then renews all locks in one batch. With the bug, it counts another
/// lock as lost.
pub(super) fn one_deleted(scene: &Scene) {
    const MANY: usize = 10;
    let cluster = &Setup::new().start();
    let on = |node: usize| {
        let keys = (0..).map(|number| format!("k{number}"));
        let there = move |key: &String| cluster.owner(cluster.slot(&format!("lock:{key}"))) == node;
        keys.filter(there)
    };
    let keys = on(1).take(1).chain(on(2).take(1)).chain(on(0).take(MANY));
    let keys: Vec<String> = keys.collect();
    let (gone, kept) = keys.split_last().expect("there are keys");
    for key in kept {
        scene.crew.note(&Note::Undisturbed { key: key.clone() });
    }
    let mut lane = Lane::stays("k", 3_000, 5_000).watched();
    lane.copies = u32::try_from(keys.len()).unwrap_or(1);
    lane.keys.clone_from(&keys);
    lane.in_turn = true;
    let mut hand = scene.start(&cluster.url(), lane);
    scene.await_entries(keys.len() as u64);
    // The process is stopped while the lock is deleted and the connections end. Otherwise it could
    // renew the deleted lock alone, and detect the loss before the batch.
    hand.process().pause();
    cluster.probe(0).delete(&format!("lock:{gone}"));
    let mut kill = cmd("CLIENT");
    cluster.run_everywhere(kill.arg("KILL").arg("TYPE").arg("NORMAL"));
    hand.process().resume();
    finish(hand);
}
