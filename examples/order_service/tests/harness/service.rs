//! An order service in a process of its own.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A running order service; killed on drop.
#[derive(Debug)]
pub(crate) struct Service {
    process: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
}

/// The program with its lock store and database, not yet started.
pub(crate) fn command(lock_store: &str, database: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_order_service"));
    command
        .env("LEASEHOLD_URL", lock_store)
        .env_remove("LEASEHOLD_NAMESPACE")
        .env_remove("LEASEHOLD_WAIT")
        .args(["--listen", "127.0.0.1:0", "--database"])
        .arg(database)
        .args(arguments);
    command
}

impl Service {
    pub(crate) fn start(lock_store: &str, database: &Path, arguments: &[&str]) -> Self {
        let mut process = command(lock_store, database, arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("cargo built the service");
        let mut stdout = BufReader::new(process.stdout.take().expect("stdout is piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("stdout is readable");
        let address = line
            .trim()
            .strip_prefix("listening on http://")
            .unwrap_or_else(|| panic!("the service did not start; it said {line:?}"))
            .to_owned();
        Self {
            process,
            stdout,
            address,
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends SIGTERM.
    pub(crate) fn ask_to_stop(&self) {
        let status = Command::new("kill")
            .args(["-TERM", &self.process.id().to_string()])
            .status();
        assert!(status.expect("there is a `kill`").success());
    }

    /// Waits for the end, and returns what was printed until then.
    pub(crate) fn wait(&mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let status = loop {
            if let Some(status) = self.process.try_wait().expect("it is our child") {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not stop");
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut said = String::new();
        self.stdout
            .read_to_string(&mut said)
            .expect("stdout is readable");
        (status, said)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
