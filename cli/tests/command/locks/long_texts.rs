//! Very long keys and owners. Any client of the server can store such keys and owners.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use leasehold_tests::etcd::Etcd;
use leasehold_tests::postgres::Postgres;
use leasehold_tests::process::Leashed;
use leasehold_tests::quorum::Quorum;
use leasehold_tests::room;
use leasehold_tests::server::Server;
use leasehold_tests::session_server::SessionServer as _;
use leasehold_tests::zookeeper::Zookeeper;

use crate::harness::{ended, leasehold};

/// Length of the long names and keys. It exceeds 65,535, the greatest width in a format string of
/// Rust. Padding to a greater width panics.
const LENGTH: usize = 70_000;

/// Maximum length of the output for one lock, in bytes. The shortened owner occurs in the output at
/// most twice.
const MOST: usize = 2_000;

/// Returns a holder in the store's format: host, pid and a function with a very long name.
fn owner() -> String {
    format!("h 1 {}", "x".repeat(LENGTH))
}

/// Writes the lock `job` to the server, held by [`owner`].
fn hold(server: &Server) {
    let (token, process) = ("0123456789abcdef".repeat(2), "1".repeat(32));
    let value = format!("{token}:7:0:{process}:{}", owner());
    let mut set = redis::cmd("SET");
    let _: String = server.probe().run(set.arg("lock:job").arg(value));
}

/// Runs `commands` and `watch` while [`owner`] holds the lock `job`. Fails if one of them panics,
/// or prints the whole owner.
fn owners_are_cut(url: &str, commands: &[(&[&str], i32)]) {
    for (arguments, code) in commands {
        let ended = ended(leasehold(url).args(*arguments));
        assert_eq!(
            ended.code,
            Some(*code),
            "{url} {arguments:?}: {}",
            ended.err
        );
        let text = ended.out + &ended.err;
        let is_named = text.contains("xxx on h (pid 1)") || text.contains(r#""host":"h""#);
        assert!(is_named, "{url} {arguments:?}: {text:.200}");
        assert!(text.len() < MOST, "{url} {arguments:?}: {}", text.len());
    }
    let mut watch = leasehold(url);
    let watch = watch.arg("watch").stdout(Stdio::piped());
    let mut watch = watch.spawn().expect("it starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("it is piped"));
    let _watch = Leashed::new(watch, None);
    let mut line = String::new();
    lines.read_line(&mut line).expect("text");
    assert!(line.contains("xxx on h (pid 1)"), "{url}: {line:.200}");
    assert!(line.len() < MOST, "{url}: {}", line.len());
}

/// Commands that print the owner of the lock `job`, with their exit codes. `run` fails because the
/// lock is held, and its error names the owner.
const SHOWING: [(&[&str], i32); 4] = [
    (&["ls"], 0),
    (&["show", "job"], 0),
    (&["show", "job", "--json"], 0),
    (&["run", "job", "--", "true"], 75),
];

/// Redis has a lock with a very long owner, and a key too long for a lock. Fails if a command
/// panics, prints the whole owner, or lists this key.
#[test]
fn redis() {
    let server = Server::start();
    hold(&server);
    let mut set = redis::cmd("SET");
    set.arg(format!("lock:{}", "k".repeat(LENGTH))).arg("x");
    let _: String = server.probe().run(&set);
    owners_are_cut(&server.url(), &SHOWING);
    let released = ended(leasehold(&server.url()).args(["release", "job", "--yes"]));
    assert!(
        released.out.contains("xxx on h (pid 1)"),
        "{}",
        released.err
    );
    assert!(released.out.len() < MOST, "{}", released.out.len());
}

/// Fails if a command panics on a very long owner in a quorum of Redis servers, or prints the whole
/// owner.
#[test]
fn redlock() {
    let _room = room::enter();
    let nodes = Quorum::young(3);
    nodes.servers.iter().for_each(hold);
    // `run` is left out. It would fail because these nodes are too young to vote, not because the
    // lock is held.
    owners_are_cut(&nodes.url(), &SHOWING[..3]);
}

/// Fails if a command panics on a very long owner in PostgreSQL, or prints the whole owner.
#[test]
fn postgres() {
    let database = Postgres::shared().migrated();
    database.try_run(&format!(
        "INSERT INTO leasehold.locks (key, state, token, fence, process, expires_at, function, timeline) \
         VALUES ('lock:job', 'held', gen_random_uuid(), 7, gen_random_uuid(), now() + '1 hour', \
                 'h 1 ' || repeat('x', {LENGTH}), leasehold._timeline())"
    ));
    owners_are_cut(&database.url(), &SHOWING);
}

/// Fails if a command panics on a very long owner in etcd, or prints the whole owner.
#[test]
fn etcd() {
    let server = Etcd::shared();
    let pair = ("long-texts/lock:job/theirs", owner());
    server.gateway().put_bytes(&[pair]);
    owners_are_cut(&server.url("long-texts"), &SHOWING);
}

/// Fails if a command panics on a very long owner in ZooKeeper, or prints the whole owner.
#[test]
fn zookeeper() {
    let _room = room::enter();
    let (server, client) = (Zookeeper::shared(), Zookeeper::shared().client());
    client.make_path("/long-texts/lock:job");
    let made = client.enqueue_with("/long-texts/lock:job/lock-", owner().as_bytes());
    made.expect("its directory is there");
    owners_are_cut(&server.url("long-texts"), &SHOWING);
}
