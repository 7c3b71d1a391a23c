//! `ls`, `show` and `watch` on a terminal.

use std::process::Command;

use leasehold_tests::room;
use leasehold_tests::server::Server;
use unicode_width::UnicodeWidthStr as _;

use crate::harness::{ended, leasehold};

const COLUMNS: usize = 80;

/// Python program that runs a command on a terminal of 40 rows, and prints its first screen. The
/// arguments are the number of columns and the command. After the first complete screen, the Python
/// program presses ctrl-c, which ends `watch`.
const TERMINAL: &str = "\
import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 40, int(sys.argv[1]), 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])
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

/// Returns the lines that a command prints on a terminal with this many columns. Fails if a line is
/// wider than the terminal.
#[track_caller]
fn shown(server: &Server, columns: usize, arguments: &[&str]) -> Vec<String> {
    let command = leasehold(&server.url());
    let mut python = Command::new("python3");
    python.args(["-c", TERMINAL, &columns.to_string()]);
    python.arg(command.get_program());
    python.args(command.get_args()).args(arguments);
    python.env("LEASEHOLD_URL", server.url());
    let ended = ended(&mut python);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let lines = ended.out.lines().map(|line| line.trim_end().to_owned());
    let lines: Vec<String> = lines.collect();
    let longest = lines.iter().map(|line| line.width()).max();
    assert!(longest <= Some(columns), "{arguments:?}: {}", ended.out);
    lines
}

/// Writes the key of a held lock to the server. `owner` is the holder: its host, its pid and
/// possibly its function, such as `web-1 4711 shop::create_order`.
fn hold(server: &Server, key: &str, owner: &str) {
    let (token, process) = ("0123456789abcdef".repeat(2), "1".repeat(32));
    let mut set = redis::cmd("SET");
    set.arg(format!("lock:{key}"))
        .arg(format!("{token}:7:0:{process}:{owner}"));
    let _: String = server.probe().run(&set);
}

/// A key is longer than a line of the terminal. Fails if its beginning or end is missing, a holder
/// is cut, or a line is too wide. Also fails if the key is shortened when the output is a pipe.
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
            let text = shown(&server, COLUMNS, arguments).join("\n");
            assert!(
                text.contains("order:0123") && text.contains(":end"),
                "{text}"
            );
            assert!(text.contains('…') && !text.contains(&key), "{text}");
            // A holder too long for one line is wrapped. Such a holder is compared without spaces
            // and line breaks.
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

/// Fails if `ls` prints more than one line for a lock whose row fits into a line of the terminal.
#[test]
fn short_rows_have_one_line() {
    let server = Server::start();
    hold(&server, "job:invoices", "web-1 4711");
    let lines = shown(&server, COLUMNS, &["ls"]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    let row = "job:invoices  exclusive  web-1 (pid 4711)  ";
    assert!(lines[1].starts_with(row), "{lines:?}");
}

/// Fails if a narrow terminal does not show a short key, the lock's kind and the lock's holder in
/// full.
#[test]
fn narrow_terminals_show_the_whole_key() {
    let _room = room::enter();
    let server = Server::start();
    hold(&server, "order:1234567", "web-1 4711 shop::create_order");
    for columns in [20, 40, 44, 60] {
        for arguments in [&["ls"][..], &["show", "order:1234567"], &["watch"]] {
            let text = shown(&server, columns, arguments).concat();
            let text = text.replace(' ', "");
            for part in [
                "order:1234567",
                "exclusive",
                "shop::create_orderonweb-1(pid4711)",
            ] {
                assert!(text.contains(part), "{columns} {arguments:?}: {text}");
            }
        }
    }
}

/// A Chinese character is two columns wide on a terminal. Fails if such characters make a line too
/// wide, or shift the columns after them.
#[test]
fn wide_characters_have_two_columns() {
    let _room = room::enter();
    let server = Server::start();
    let long = "注文".repeat(30);
    for (key, name) in [
        (long.as_str(), "web-1"),
        ("注文:7", "機械"),
        ("order:42", "web-1"),
    ] {
        hold(&server, key, &format!("{name} 4711 shop::create_order"));
    }
    for arguments in [&["ls"][..], &["show", &long], &["watch"]] {
        let text = shown(&server, COLUMNS, arguments).join("\n");
        assert!(text.contains("注文注文") && text.contains('…'), "{text}");
        assert!(!text.contains(&long), "{text}");
    }
    let table = ended(leasehold(&server.url()).arg("ls")).out;
    let columns = table.lines().skip(1).map(|line| {
        let (key, _) = line.split_once("exclusive").expect("its kind");
        key.width()
    });
    let columns: Vec<_> = columns.collect();
    assert!(
        columns.iter().all(|column| *column == columns[0]),
        "{table}"
    );
}
