//! Command lines that are wrong or impossible: their error texts and exit codes.

use leasehold_tests::server::Server;

use crate::harness::{Ended, bare, ended, leasehold};

fn refused(url: &str, arguments: &[&str]) -> Ended {
    let ended = ended(leasehold(url).args(arguments));
    assert_eq!(ended.code, Some(64), "{arguments:?}: {ended:?}");
    assert_eq!(ended.out, "", "{arguments:?}");
    ended
}

/// Fails if the error for a wrong command line does not suggest a correction, or if `run` starts
/// its command nevertheless.
#[test]
fn mistakes_are_reported() {
    let server = Server::start();
    let url = server.url();
    for (arguments, text) in [
        (&["run"][..], "<KEY>"),
        (&["run", "job"], "-- <COMMAND>..."),
        (
            &["run", "job", "echo", "ran"],
            "write `--` before the command: `leasehold run <KEY> -- echo …`",
        ),
        (
            &["run", "job", "--ttl", "5 parsecs", "--", "echo"],
            "write a time such as `30s`",
        ),
        (
            &["run", "job", "--ttl", "200ms", "--", "echo"],
            "use at least 1s",
        ),
        (
            &["run", "job", "--ttl", "25h", "--", "echo"],
            "choose one from 100 ms to 24 h",
        ),
        (
            &["run", "job", "--max-hold", "5s", "--", "echo"],
            "use at least the ttl",
        ),
        (&["run", "", "--", "echo"], "key"),
        (
            &["run", "job", "--namespace", "%leasehold", "--", "echo"],
            "the namespace `%leasehold`",
        ),
        (&["frobnicate"], "unrecognized subcommand"),
        (&["--url", "http://localhost", "check"], "redis://"),
        (&["--url", "memory://", "check"], "in one process only"),
    ] {
        let ended = refused(&url, arguments);
        assert!(ended.err.contains(text), "{arguments:?}: {ended:?}");
    }
}

/// No lock store is given. Fails if the exit code is not 64, or if the error does not name the
/// variable to set.
#[test]
fn without_a_store() {
    for url in [None, Some("")] {
        let mut command = bare();
        command
            .arg("check")
            .envs(url.map(|url| ("LEASEHOLD_URL", url)));
        let ended = ended(&mut command);
        assert_eq!(ended.code, Some(64), "{ended:?}");
        assert!(ended.err.contains("or set LEASEHOLD_URL"), "{ended:?}");
    }
}

/// Fails if the help does not show the exit codes, or shows the password in `LEASEHOLD_URL`.
#[test]
fn the_help_shows_exit_codes_and_no_password() {
    let url = "redis://:secret@127.0.0.1/";
    let help = ended(leasehold(url).arg("--help"));
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""));
    for text in [
        "75   run: the lock is held elsewhere",
        "LEASEHOLD_URL",
        "check",
    ] {
        assert!(help.out.contains(text), "{text}: {help:?}");
    }
    assert!(!help.out.contains("secret"));
    let help = ended(leasehold(url).args(["run", "--help"]));
    for text in [
        "--without-url",
        "`LEASEHOLD_URL` and the password in it",
        "71   the system refuses",
        "75   the lock is held elsewhere",
        "127  the command was not found",
    ] {
        assert!(help.out.contains(text), "{text}: {help:?}");
    }
    assert!(!help.out.contains("secret"));
    let version = ended(leasehold(url).arg("--version"));
    assert_eq!(
        version.out,
        format!("leasehold {}\n", env!("CARGO_PKG_VERSION"))
    );
}

/// Fails if an error with `--json` is not a line of JSON with the exit code and the text.
#[test]
fn errors_are_printed_as_json() {
    let ended = ended(bare().args(["check", "--json"]));
    let error = ended.event("error");
    assert_eq!(error["exit_code"], 64);
    assert!(
        error["text"]
            .as_str()
            .is_some_and(|text| text.contains("LEASEHOLD_URL"))
    );
}

/// The error for `leasehold run KEY COMMAND` suggests to write `--` before the command. Fails if
/// this tip depends on the order of the options, or appears for another mistake.
#[test]
fn the_tip_about_missing_dashes_is_only_for_run() {
    let server = Server::start();
    for (arguments, is_tip) in [
        (&["run", "job", "true"][..], true),
        (&["--namespace", "show", "run", "job", "true"], true),
        (&["run", "--ttl", "5s", "job", "true"], true),
        (&["show", "run", "x"], false),
        (&["ls", "--namespace", "run", "x", "y"], false),
        (&["run", "job", "x", "--", "true"], false),
        (&["run", "job", "--tll", "5s", "--", "true"], false),
    ] {
        let ended = refused(&server.url(), arguments);
        let found = ended.err.contains("write `--` before the command");
        assert_eq!(found, is_tip, "{arguments:?}: {ended:?}");
    }
}
