//! `ls`, `show` and `watch` on a terminal of 80 columns.

use std::process::Command;

use leasehold_tests::room;
use leasehold_tests::server::Server;

use crate::harness::{ended, leasehold};

const COLUMNS: usize = 80;

/// Prints what a command prints on a terminal of 24 rows and 80 columns. Presses ctrl-c after the
/// first complete screen.
const TERMINAL: &str = "\
import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
seen, pressed = b'', False
try:
    while True:
        more = os.read(terminal, 4096)
        if not more: break
        seen += more
        if b'\\x1b[J' in seen and not pressed:
            os.write(terminal, b'\\x03')
            pressed = True
except OSError: pass
os.waitpid(pid, 0)
seen = seen.split(b'\\x1b[J')[0]
for code in (b'\\x1b[2J', b'\\x1b[H', b'\\x1b[K'): seen = seen.replace(code, b'')
sys.stdout.buffer.write(seen)
";

/// Returns the lines that a command prints on the terminal.
fn shown(server: &Server, arguments: &[&str]) -> Vec<String> {
    let command = leasehold(&server.url());
    let mut python = Command::new("python3");
    python.args(["-c", TERMINAL]).arg(command.get_program());
    python.args(command.get_args()).args(arguments);
    python.env("LEASEHOLD_URL", server.url());
    let ended = ended(&mut python);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    ended
        .out
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// Lets a process with this name hold a lock.
fn hold(server: &Server, key: &str, owner: &str) {
    let (token, process) = ("0123456789abcdef".repeat(2), "1".repeat(32));
    let mut set = redis::cmd("SET");
    set.arg(format!("lock:{key}"))
        .arg(format!("{token}:7:0:{process}:{owner}"));
    let _: String = server.probe().run(&set);
}

/// Fails if a line is longer than the terminal, a holder is cut, or the ends of a key are missing.
/// Also fails if a key is shortened in a pipe.
#[test]
fn long_keys_are_shortened_and_holders_are_complete() {
    let _room = room::enter();
    let server = Server::start();
    let key = format!("order:{}:end", "0123456789".repeat(7));
    let long = format!("shop::{}::create_order", "o".repeat(70));
    for (owner, holder) in [
        ("web-1 4711", "web-1 (pid 4711)".to_owned()),
        (
            "web-1 4711 shop::orders::create_order",
            "shop::orders::create_order on web-1 (pid 4711)".to_owned(),
        ),
        (
            &*format!("web-1 4711 {long}"),
            format!("{long} on web-1 (pid 4711)"),
        ),
    ] {
        hold(&server, &key, owner);
        for arguments in [&["ls"][..], &["show", &key], &["watch"]] {
            let lines = shown(&server, arguments);
            let text = lines.join("\n");
            let longest = lines.iter().map(|line| line.chars().count()).max();
            assert!(longest <= Some(COLUMNS), "{arguments:?}: {text}");
            assert!(
                text.contains("order:0123") && text.contains(":end"),
                "{text}"
            );
            assert!(text.contains('…') && !text.contains(&key), "{text}");
            // A holder longer than a line is wrapped.
            let fits = holder.len() <= COLUMNS - 14;
            let without = |text: &str| text.replace([' ', '\n'], "");
            assert!(
                if fits {
                    text.contains(&holder)
                } else {
                    without(&text).contains(&without(&holder))
                },
                "{arguments:?}: {holder}: {text}"
            );
            if arguments != ["watch"] {
                let piped = ended(leasehold(&server.url()).args(arguments)).out;
                assert!(piped.contains(&key) && piped.contains(&holder), "{piped}");
            }
        }
    }
}

/// Fails if a table that fits has more than one line for a lock.
#[test]
fn short_rows_have_one_line() {
    let server = Server::start();
    hold(&server, "job:invoices", "web-1 4711");
    let lines = shown(&server, &["ls"]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    let row = "job:invoices  exclusive  web-1 (pid 4711)  ";
    assert!(lines[1].starts_with(row), "{lines:?}");
}
