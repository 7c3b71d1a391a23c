//! The name of a holder that is `leasehold run`.

use leasehold_tests::etcd::Etcd;
use leasehold_tests::postgres::Postgres;
use leasehold_tests::room;
use leasehold_tests::server::Server;
use leasehold_tests::session_server::SessionServer as _;
use leasehold_tests::zookeeper::Zookeeper;

use crate::harness::journal::Journal;
use crate::harness::{Running, ended, leasehold, run};

/// Fails if others cannot see the command of a holder, or see it in spite of `--name`.
#[test]
fn a_holder_is_named_by_its_command() {
    let _room = room::enter();
    let (server, database) = (Server::start(), Postgres::shared().migrated());
    for url in [
        server.url(),
        database.url(),
        Etcd::shared().url("named"),
        Zookeeper::shared().url("named"),
    ] {
        for (options, name) in [
            (&[][..], "sh -c "),
            (&["--name", "nightly  invoices"], "nightly invoices on "),
        ] {
            let journal = Journal::new();
            let script = format!("true;\n{}; {}", journal.note("ran"), journal.until("end"));
            let options = [&["--ttl", "15s"], options].concat();
            let holder = Running::start(&mut run(&url, "job", &options, &script));
            journal.wait_for("ran");
            let process = format!(" (pid {})", holder.id());
            for arguments in [&["ls"][..], &["show", "job"], &["run", "job", "--", "true"]] {
                let ended = ended(leasehold(&url).args(arguments));
                let text = ended.out + &ended.err;
                let named = |line: &str| line.contains(name) && line.contains(&process);
                assert!(text.lines().any(named), "{url} {arguments:?}: {text}");
            }
            let shown = ended(leasehold(&url).args(["show", "job", "--json"])).json();
            let function = shown["holders"][0]["owner"]["function"].as_str();
            let function = function.expect("a text");
            let short = if name == "sh -c " {
                "sh -c true; "
            } else {
                "nightly invoices"
            };
            assert!(function.starts_with(short), "{url}: {function}");
            assert!(function.chars().count() <= 60, "{url}: {function}");
            journal.open("end");
            assert_eq!(holder.wait().code, Some(0), "{url}");
        }
    }
}
