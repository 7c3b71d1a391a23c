//! Keys and owners that contain control characters, which a terminal would obey. Any client of the
//! server can store such keys and owners.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use leasehold_tests::process::Leashed;
use leasehold_tests::server::Server;

use crate::harness::{Ended, leasehold};

/// A key whose characters clear a terminal, return to the start of a line, reverse the direction of
/// text, and end a line.
const KEY: &str = "\u{1b}[2Jgo\rne\u{202e}\u{2028}";

/// [`KEY`] as `leasehold` must print it, with escaped characters.
const SHOWN: &str = "\\u{1b}[2Jgo\\rne\\u{202e}\\u{2028}";

/// A holder in the store's format: host, pid and function. Its characters would make text bold and
/// reverse the direction of text.
const OWNER: &str = "ho\u{1b}[1mst 17 f\u{202e}n";

/// The function, host and pid of `OWNER` as `leasehold` must print them.
const SHOWN_OWNER: &str = "f\\u{202e}n on ho\\u{1b}[1mst (pid 17)";

/// Makes `OWNER` the holder of the lock `KEY`.
fn hold(server: &Server) {
    let (token, process) = ("0123456789abcdef".repeat(2), "1".repeat(32));
    let value = format!("{token}:7:0:{process}:{OWNER}");
    let mut set = redis::cmd("SET");
    set.arg(format!("lock:{KEY}")).arg(value);
    let _: String = server.probe().run(&set);
}

/// Fails if a text contains characters that a terminal obeys, or lacks one of the `parts`.
#[track_caller]
fn assert_plain(text: &str, parts: &[&str]) {
    let obeyed = ['\u{1b}', '\r', '\u{202e}', '\u{2028}'];
    assert!(!text.contains(obeyed), "{text:?}");
    for part in parts {
        assert!(text.contains(part), "{part} is not in {text:?}");
    }
}

fn with_answer(command: &mut Command, answer: &str) -> Ended {
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut input = child.stdin.take().expect("it is piped");
    // The write fails if the command asks no question and has ended already. This error is ignored.
    let _ = input.write_all(answer.as_bytes());
    drop(input);
    Ended::new(&child.wait_with_output().expect("it ends"))
}

/// Fails if a command prints a control character of `KEY` or `OWNER` unescaped. This includes a key
/// given as an argument, because a script may pass on a key that another client has stored.
#[test]
fn no_command_prints_control_characters_unescaped() {
    let server = Server::start();
    hold(&server);
    let mut watch = leasehold(&server.url());
    watch.args(["watch", "--every", "50ms"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("it is piped"));
    let _watch = Leashed::new(watch, None);
    let mut line = || {
        let mut line = String::new();
        lines.read_line(&mut line).expect("text");
        line
    };
    assert_plain(&line(), &[SHOWN, SHOWN_OWNER]);
    let both = [SHOWN, SHOWN_OWNER];
    for (arguments, answer, code, parts) in [
        (&["ls"][..], "", 0, &both[..]),
        (&["show", KEY], "", 0, &both),
        (&["run", KEY, "--", "true"], "", 75, &both),
        (&["release", KEY], "n\n", 1, &both),
        (&["release", KEY], "y\n", 0, &both),
        (&["release", KEY], "", 1, &[SHOWN]),
        (&["release", KEY, "--yes"], "", 1, &[SHOWN]),
    ] {
        let ended = with_answer(leasehold(&server.url()).args(arguments), answer);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
        assert_plain(&(ended.out + &ended.err), parts);
    }
    assert_plain(&line(), &[SHOWN, "free"]);
}
