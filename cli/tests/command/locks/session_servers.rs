//! `leasehold ls`, `show` and `release` for locks on etcd and ZooKeeper.

use leasehold_tests::etcd::Etcd;
use leasehold_tests::room;
use leasehold_tests::session_server::SessionServer;
use leasehold_tests::zookeeper::Zookeeper;

use crate::harness::journal::Journal;
use crate::harness::{Running, ended, leasehold, run};

/// A lock is held by `leasehold run`. Fails if `ls` or `show` lacks this lock, or if the command
/// keeps running after `release`.
fn a_lock_is_shown_and_taken_away<S: SessionServer>() {
    let _room = room::enter();
    let journal = Journal::new();
    let url = S::shared().url("command");
    let script = format!("{}; {}", journal.note("ran"), journal.beat("first"));
    let first = Running::start(&mut run(&url, "job", &["--ttl", "15s"], &script));
    journal.wait_for("ran");

    let listed = ended(leasehold(&url).args(["ls", "j*"]));
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let line = listed.out.lines().nth(1).expect("a lock is listed");
    assert!(line.starts_with("job  exclusive  "), "{listed:?}");
    assert!(
        line.contains(&format!("(pid {})", first.id())),
        "{listed:?}"
    );
    let shown = ended(leasehold(&url).args(["show", "job", "--json"])).json();
    assert_eq!(shown["state"], "exclusive");
    assert_eq!(shown["holders"][0]["owner"]["pid"], first.id());
    let shown = ended(leasehold(&url).args(["show", "job"]));
    assert!(shown.out.contains("expires in"), "{shown:?}");

    let released = ended(leasehold(&url).args(["release", "job", "--yes"]));
    assert_eq!(released.code, Some(0), "{released:?}");
    let first = first.wait();
    let reported = "the lock `job` was taken away by an operator";
    assert!(first.err.contains(reported), "{first:?}");
    let free = ended(leasehold(&url).args(["release", "job", "--yes"]));
    assert_eq!(free.code, Some(1), "{free:?}");
    let listed = ended(leasehold(&url).arg("ls"));
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(!listed.out.contains("job"), "{listed:?}");
}

#[test]
fn etcd() {
    a_lock_is_shown_and_taken_away::<Etcd>();
}

#[test]
fn zookeeper() {
    a_lock_is_shown_and_taken_away::<Zookeeper>();
}
