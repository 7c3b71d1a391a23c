//! A Redis of the test's own.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A `redis-server` on a free loopback port, without persistence; killed on drop.
#[derive(Debug)]
pub(crate) struct Redis {
    process: Child,
    port: u16,
}

impl Redis {
    pub(crate) fn start() -> Self {
        (0..5)
            .find_map(|_| Self::try_start())
            .expect("redis-server does not start; is it installed? `scripts/test` does that")
    }

    /// `None` if somebody else took the port between our look and the server's start.
    fn try_start() -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let mut server = Self { process, port };
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if server.process.try_wait().is_ok_and(|exit| exit.is_some()) {
                return None;
            }
            if server.command("PING").is_ok_and(|pong| pong == "+PONG") {
                return Some(server);
            }
            sleep(Duration::from_millis(10));
        }
        None
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Waits until `key` exists: somebody holds that lock.
    pub(crate) fn wait_for_key(&self, key: &str) {
        let deadline = Instant::now() + Duration::from_secs(10);
        let question = format!("EXISTS {key}");
        while self.command(&question).expect("the test's Redis answers") != ":1" {
            assert!(Instant::now() < deadline, "nobody locked `{key}` in 10 s");
            sleep(Duration::from_millis(2));
        }
    }

    /// Sends one inline command and returns the first line of the answer.
    fn command(&self, line: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "{line}\r\n")?;
        let mut answer = Vec::new();
        let mut byte = [0];
        while stream.read(&mut byte)? == 1 && byte[0] != b'\r' {
            answer.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it is our child");
        self.process.wait().expect("it is our child");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
