//! The name of a holder that `leasehold run` writes to the store, and that other processes see.

use leasehold_tests::etcd::Etcd;
use leasehold_tests::postgres::Postgres;
use leasehold_tests::server::Server;
use leasehold_tests::session_server::SessionServer as _;
use leasehold_tests::zookeeper::Zookeeper;
use leasehold_tests::{room, wait};
use serde_json::Value;

use crate::harness::journal::Journal;
use crate::harness::{LONG, Running, ended, leasehold, run};

/// A secret in the arguments of a command.
const SECRET: &str = "hunter2";

/// The name of a holder is `--name`, or else `LEASEHOLD_NAME`, or else the command's program. Fails
/// if `ls`, `show` or a refused `run` does not print this name. Also fails if one of them prints an
/// argument of the command, which may be secret.
#[test]
fn a_holder_is_named_by_its_program() {
    let _room = room::enter();
    let (server, database) = (Server::start(), Postgres::shared().migrated());
    for url in [
        server.url(),
        database.url(),
        Etcd::shared().url("named"),
        Zookeeper::shared().url("named"),
    ] {
        for (options, variable, name) in [
            (&[][..], "", "sh"),
            (
                &["--name", "nightly  invoices"],
                "other",
                "nightly invoices",
            ),
            (&[], "nightly", "nightly"),
        ] {
            let journal = Journal::new();
            let script = format!(
                ": {SECRET}; {}; {}",
                journal.note("ran"),
                journal.until("end")
            );
            let start = |wait| {
                let options = [&["--ttl", "15s", "--wait", wait], options].concat();
                let mut command = run(&url, "job", &options, &script);
                command.arg(SECRET).env("LEASEHOLD_NAME", variable);
                Running::start(&mut command)
            };
            let holder = start("0s");
            journal.wait_for("ran");
            let process = format!("{name} on ");
            let id = format!(" (pid {})", holder.id());
            for arguments in [&["ls"][..], &["show", "job"], &["run", "job", "--", "true"]] {
                let ended = ended(leasehold(&url).args(arguments));
                let text = ended.out + &ended.err;
                let named = |line: &str| line.contains(&process) && line.contains(&id);
                assert!(text.lines().any(named), "{url} {arguments:?}: {text}");
                assert!(!text.contains(SECRET), "{url} {arguments:?}: {text}");
            }
            let next = start("60s");
            let mut shown = Value::Null;
            wait::until("the next holder queues", LONG, || {
                shown = ended(leasehold(&url).args(["show", "job", "--json"])).json();
                shown["waiting"][0].is_object()
            });
            for part in ["holders", "waiting"] {
                assert_eq!(shown[part][0]["owner"]["function"], name, "{url}: {shown}");
            }
            assert!(!shown.to_string().contains(SECRET), "{url}: {shown}");
            journal.open("end");
            assert_eq!(holder.wait().code, Some(0), "{url}");
            assert_eq!(next.wait().code, Some(0), "{url}");
        }
    }
}

/// Fails if the lock's value on the server contains an argument of the command. Every client of the
/// server could read this argument.
#[test]
fn no_argument_is_in_a_value_on_the_server() {
    let _room = room::enter();
    let (server, journal) = (Server::start(), Journal::new());
    let script = format!("{}; {}", journal.note("ran"), journal.until("end"));
    let mut command = run(&server.url(), "job", &[], &script);
    let holder = Running::start(command.arg(SECRET));
    journal.wait_for("ran");
    let value: String = server.probe().run(redis::cmd("GET").arg("lock:job"));
    assert!(value.ends_with(&format!("{} sh", holder.id())), "{value}");
    journal.open("end");
    assert_eq!(holder.wait().code, Some(0));
}
