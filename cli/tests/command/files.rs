//! Errors of a process at its limit of open files.

use std::process::Command;

use leasehold_tests::etcd::Etcd;
use leasehold_tests::postgres::Postgres;
use leasehold_tests::server::Server;
use leasehold_tests::session_server::SessionServer as _;
use leasehold_tests::zookeeper::Zookeeper;

use crate::harness::{ended, leasehold};

/// Returns the command `leasehold ls`, which may open at most `limit` files.
fn limited(url: &str, limit: u32) -> Command {
    let command = leasehold(url);
    let mut shell = Command::new("sh");
    let script = format!("ulimit -n {limit}; exec \"$0\" \"$@\"");
    shell.arg("-c").arg(script).arg(command.get_program());
    shell.args(command.get_args()).arg("ls");
    shell.env("LEASEHOLD_URL", url);
    shell
}

/// A process may open too few files to connect to its lock store. Fails if the error then blames
/// only the server and does not mention `ulimit -n`.
#[test]
fn a_limit_of_open_files_is_named() {
    let (server, database) = (Server::start(), Postgres::shared().migrated());
    for url in [
        server.url(),
        database.url(),
        database.socket_url(),
        Etcd::shared().url("files"),
        Zookeeper::shared().url("files"),
    ] {
        let mut named = 0;
        // The first limits are too low for any program to start. The search ends at the first limit
        // with which `ls` succeeds.
        let enough = (4..200).find(|limit| {
            let listed = ended(&mut limited(&url, *limit));
            let text = &listed.err;
            // With the lowest limits, the system cannot load `leasehold`. The error is then not
            // from `leasehold`.
            if text.starts_with("leasehold: ") {
                assert!(text.contains("ulimit -n"), "{url} with {limit}: {text}");
                named += 1;
            }
            listed.code == Some(0)
        });
        assert!(enough.is_some(), "{url}");
        assert!(named > 0, "{url}");
    }
}
