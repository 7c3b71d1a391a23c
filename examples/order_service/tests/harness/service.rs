//! An order service in a separate process.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold_tests::process::Leashed;
use leasehold_tests::wait;

/// A running order service. It is killed when this value is dropped, or when the process of the
/// test dies.
#[derive(Debug)]
pub(crate) struct Service {
    process: Leashed,
    stdout: BufReader<ChildStdout>,
    address: String,
    log: PathBuf,
}

/// Returns the program with its lock store and database, not yet started.
pub(crate) fn command(lock_store: &str, database: &Path, arguments: &[&str]) -> Command {
    let mut command = program();
    command
        .env("LEASEHOLD_URL", lock_store)
        .arg("--database")
        .arg(database)
        .args(arguments);
    command
}

/// Returns the program without a lock store and a database, not yet started.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_order_service"));
    command
        .env_remove("LEASEHOLD_URL")
        .env_remove("LEASEHOLD_NAMESPACE")
        .env_remove("LEASEHOLD_WAIT")
        .args(["--listen", "127.0.0.1:0"]);
    command
}

impl Service {
    pub(crate) fn start(lock_store: &str, database: &Path, arguments: &[&str]) -> Self {
        Self::launch(command(lock_store, database, arguments), database)
    }

    /// Starts `command`, with a log in the folder of `file`.
    pub(crate) fn launch(mut command: Command, file: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = file.with_file_name(format!("service-{number}.log"));
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("the folder is writable"))
            .spawn()
            .expect("cargo built the service");
        let mut stdout = BufReader::new(process.stdout.take().expect("stdout is piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("stdout is readable");
        let address = line
            .trim()
            .strip_prefix("listening on http://")
            .unwrap_or_else(|| {
                let logged = fs::read_to_string(&log).unwrap_or_default();
                panic!("the service did not start; it printed {line:?}\n{logged}")
            })
            .to_owned();
        Self {
            process: Leashed::new(process, None),
            stdout,
            address,
            log,
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the next line of the service's output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout
            .read_line(&mut line)
            .expect("stdout is readable");
        line
    }

    /// Sends SIGTERM.
    pub(crate) fn ask_to_stop(&self) {
        // Uses the shell's built-in `kill`, because not every system has the program.
        let status = Command::new("sh")
            .args(["-c", "kill -TERM \"$0\"", &self.process.id().to_string()])
            .status();
        assert!(status.expect("there is a shell").success());
    }

    /// Waits until the service has ended. Returns its exit status and the rest of its output.
    pub(crate) fn wait(&mut self) -> (ExitStatus, String) {
        let mut status = None;
        wait::until("the service stops", Duration::from_secs(20), || {
            status = self.process.exited();
            status.is_some()
        });
        let mut printed = String::new();
        self.stdout
            .read_to_string(&mut printed)
            .expect("stdout is readable");
        (status.expect("it has ended"), printed)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("{} printed:\n{log}", self.address);
        }
    }
}
