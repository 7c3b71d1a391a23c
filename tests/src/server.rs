//! Real `redis-server` processes, one for each test that needs one.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::certificates::Certificates;
use crate::folder::Folder;
use crate::process::Leashed;
use crate::redis_probe::RedisProbe;
use crate::server_clock::{self, ServerClock};
use crate::wait;

/// Time limit from a server's start to its first answer.
const START: Duration = Duration::from_secs(60);
/// The first port for test servers. Test ports are below the range from which the system chooses
/// ports for outgoing connections. Otherwise an outgoing connection could occupy the port of a
/// server that restarts. A client could even get this port as its own, and connect to itself.
const FIRST_PORT: u32 = 15_000;
const PORTS: u32 = 15_000;

/// Configuration of a server. Nothing is kept on disk by default.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ServerOptions {
    arguments: Vec<String>,
    password: Option<String>,
    tls_port: Option<u16>,
    program: Option<PathBuf>,
    clock: Option<ServerClock>,
}

impl ServerOptions {
    /// A configuration without persistence or password.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `program` instead of `redis-server`.
    pub fn program(mut self, program: &Path) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    /// Runs the server with this clock instead of the system's clock.
    pub fn clock(mut self, clock: &ServerClock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// Adds `--name value …` to the command line.
    pub fn option(mut self, name: &str, values: &[&str]) -> Self {
        self.arguments.push(format!("--{name}"));
        let values = values.iter().map(|value| (*value).to_owned());
        self.arguments.extend(values);
        self
    }

    /// Requires this password from clients.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.option("requirepass", &[password])
    }

    /// Sets the number of databases.
    pub fn databases(self, count: u32) -> Self {
        self.option("databases", &[&count.to_string()])
    }

    /// Limits the server's memory to `bytes`. A write that needs more gets an error.
    pub fn max_memory(self, bytes: u64) -> Self {
        self.option("maxmemory", &[&bytes.to_string()])
            .option("maxmemory-policy", &["noeviction"])
    }

    /// Makes the server write every change to disk before it answers the client.
    pub fn append_only(self) -> Self {
        self.option("appendonly", &["yes"])
            .option("appendfsync", &["always"])
    }

    /// Makes the server a replica of `primary`.
    pub fn replica_of(self, primary: &Server) -> Self {
        let port = primary.announced_port().to_string();
        self.option("replicaof", &["127.0.0.1", &port])
    }

    /// Adds a separate port for TLS. Other servers and Sentinels then use this port.
    pub fn tls(self, certificates: &Certificates) -> Self {
        let port = free_port();
        let settings = certificates.settings(port);
        let mut options = settings.iter().fold(self, |options, (name, value)| {
            options.option(name, &[value])
        });
        options.tls_port = Some(port);
        options
    }

    /// Makes the server a node that may join a cluster. Also returns the port on which this node
    /// listens for the other nodes.
    pub fn cluster_node(self) -> (Self, u16) {
        let bus = free_port();
        let options = self
            .option("cluster-enabled", &["yes"])
            .option("cluster-port", &[&bus.to_string()]);
        (options, bus)
    }

    /// Starts the server and waits for its first answer.
    ///
    /// # Panics
    ///
    /// Panics if `redis-server` is missing or does not start. The message explains what to do.
    pub fn start(self) -> Server {
        let folder = Folder::new();
        for _ in 0..20 {
            let port = free_port();
            if let Some(process) = self.spawn(port, folder.path()) {
                return Server {
                    process: Some(process),
                    options: self,
                    port,
                    folder,
                };
            }
        }
        panic!("redis-server does not start:\n{}", folder.log());
    }

    /// Runs `redis-server` and waits for its first answer. Returns `None` if the process ends
    /// before this answer, usually because another process has taken the port.
    fn spawn(&self, port: u16, folder: &Path) -> Option<Leashed> {
        let log = fs::File::create(folder.join("log")).expect("a log file can be made");
        let program = self.program.as_ref().map(OsString::from);
        let child = Command::new(program.unwrap_or_else(self::program))
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(folder)
            .arg("--unixsocket")
            .arg(folder.join("socket"))
            .args(&self.arguments)
            .envs(self.clock.iter().flat_map(ServerClock::environment))
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a file can be shared"))
            .stdout(log)
            .spawn()
            .unwrap_or_else(|error| missing(&error));
        let mut process = Leashed::new(child, Some(folder));
        let url = self.url(port);
        let mut ended = false;
        wait::until("redis-server answers", START, || {
            ended = process.exited().is_some();
            ended || RedisProbe::answers(&url)
        });
        (!ended).then_some(process)
    }

    fn url(&self, port: u16) -> String {
        match &self.password {
            Some(password) => {
                format!("redis://:{}@127.0.0.1:{port}/", percent_encoded(password))
            }
            None => format!("redis://127.0.0.1:{port}/"),
        }
    }
}

/// Returns the program to run as a server: the value of `LEASEHOLD_TEST_SERVER`, or `redis-server`.
pub(crate) fn program() -> OsString {
    std::env::var_os("LEASEHOLD_TEST_SERVER").unwrap_or_else(|| "redis-server".into())
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

fn missing(error: &std::io::Error) -> ! {
    panic!(
        "the behaviour tests need the program redis-server ({error}): install it with \
         `apt-get install redis-server`, `dnf install redis`, `apk add redis` or `brew install redis`"
    )
}

/// A running server. Dropping it kills the process and removes its folder.
#[derive(Debug)]
pub struct Server {
    process: Option<Leashed>,
    options: ServerOptions,
    port: u16,
    folder: Folder,
}

impl Server {
    /// Starts a server without options.
    pub fn start() -> Self {
        ServerOptions::new().start()
    }

    /// The URL of the server's first database, with the password if there is one.
    pub fn url(&self) -> String {
        self.options.url(self.port)
    }

    /// The URL over the server's Unix socket.
    pub fn socket_url(&self) -> String {
        format!(
            "redis+unix://{}",
            self.folder.path().join("socket").display()
        )
    }

    /// The server's port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port for other servers and Sentinels: the port for TLS if there is one, otherwise the
    /// usual port.
    pub fn announced_port(&self) -> u16 {
        self.options.tls_port.unwrap_or(self.port)
    }

    /// The server's address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Connects a plain client, which reads and writes keys without the code under test.
    pub fn probe(&self) -> RedisProbe {
        RedisProbe::connect(&self.url())
    }

    /// The role that the server reports, `master` or `slave`. `None` if the server does not answer.
    pub fn role(&self) -> Option<String> {
        let probe = RedisProbe::try_connect(&self.url())?;
        let info: String = probe.try_run(redis::cmd("INFO").arg("replication")).ok()?;
        let mut lines = info.lines();
        let role = lines.find_map(|line| line.strip_prefix("role:"))?;
        Some(role.trim().to_owned())
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.running().id()
    }

    /// Stops the process (SIGSTOP). Connections stay open, and nothing answers.
    pub fn pause(&self) {
        self.running().pause();
    }

    /// Lets a paused server run again.
    pub fn resume(&self) {
        self.running().resume();
    }

    /// Kills the server (SIGKILL). Without persistence, all its data is lost.
    pub fn kill(&mut self) {
        let killed = self.process.take().map(|process| process.id());
        if let (Some(process), Some(_)) = (killed, &self.options.clock) {
            server_clock::clean_up(process);
        }
    }

    /// Kills the server if it runs, and starts it again on the same port.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start.
    pub fn restart(&mut self) {
        self.kill();
        self.process = self.options.spawn(self.port, self.folder.path());
        assert!(
            self.process.is_some(),
            "redis-server does not start again:\n{}",
            self.folder.log()
        );
    }

    fn running(&self) -> &Leashed {
        self.process.as_ref().expect("the server is running")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Finds a free port that this process has not used before. A stopped server may start again on its
/// old port, so no other server may get this port. Different processes start the search at
/// different ports.
pub(crate) fn free_port() -> u16 {
    static FIRST: LazyLock<u32> = LazyLock::new(|| {
        let nanos = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |age| age.subsec_nanos());
        std::process::id()
            .wrapping_mul(7_919)
            .wrapping_add(nanos / 1_000)
    });
    static STEPS: AtomicU32 = AtomicU32::new(0);
    loop {
        let step = STEPS.fetch_add(1, Ordering::Relaxed);
        let port = FIRST_PORT + FIRST.wrapping_add(step) % PORTS;
        let port = u16::try_from(port).expect("a port has 16 bits");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
