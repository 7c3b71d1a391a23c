//! The `Lock` of redis-py, as another client.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use leasehold_tests::process::Leashed;
use leasehold_tests::python;
use leasehold_tests::server::Server;

use super::{PATIENCE, Peer};

struct RedisPy {
    _process: Leashed,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl RedisPy {
    fn start(server: &Server) -> Self {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
        let mut child = Command::new(python::interpreter(&target))
            .args(["-c", include_str!("redis_py.py")])
            .arg(server.port().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let input = child.stdin.take().expect("piped");
        let output = child.stdout.take().expect("piped");
        Self {
            _process: Leashed::new(child, None),
            input,
            output: BufReader::new(output).lines(),
        }
    }

    fn ask(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").expect("Python listens");
        let answer = self.output.next().expect("Python answers");
        answer.expect("a line of text")
    }
}

impl Peer for RedisPy {
    fn acquire(&mut self, key: &str, ttl: Duration) -> bool {
        self.ask(&format!("acquire {key} {} 0", ttl.as_secs_f64())) == "True"
    }

    fn wait_for(&mut self, key: &str) -> bool {
        self.ask(&format!("acquire {key} 20 {}", PATIENCE.as_secs_f64())) == "True"
    }

    fn release(&mut self) -> bool {
        self.ask("release") == "True"
    }

    fn forge(&mut self, key: &str) -> bool {
        let answer = self.ask(&format!("forge {key}"));
        assert!(
            answer == "True" || answer == "LockNotOwnedError",
            "{answer}"
        );
        answer == "True"
    }
}

#[test]
fn redis_py_and_leasehold_exclude_each_other() {
    super::exclude_each_other(|server| Box::new(RedisPy::start(server)));
}
