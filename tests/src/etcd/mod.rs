//! Real etcd servers: one for all tests of a program, with a prefix for each, or one of a test's
//! own, or a cluster of three.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use crate::process::Leashed;
use crate::server::{Folder, free_port};
use crate::wait;

mod gateway;
mod probe;
pub use self::gateway::Gateway;
pub use self::probe::EtcdProbe;

/// How long a server may take from its start to its first answer.
const START: Duration = Duration::from_secs(60);

/// The server that tests share.
static SHARED: LazyLock<Etcd> = LazyLock::new(Etcd::start);

/// A running server. Dropping it kills the process and removes its folder.
#[derive(Debug)]
pub struct Etcd {
    process: Option<Leashed>,
    name: String,
    port: u16,
    peer_port: u16,
    /// The members of its cluster, as the server is told of them.
    cluster: String,
    folder: Folder,
}

impl Etcd {
    /// The server of this program.
    pub fn shared() -> &'static Self {
        &SHARED
    }

    /// A server of a test's own, which is a cluster of one.
    ///
    /// # Panics
    ///
    /// When `etcd` is missing or does not start; the text says what to do.
    pub fn start() -> Self {
        let mut servers = Self::cluster(1);
        servers.pop().expect("one was started")
    }

    /// A cluster of so many servers.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn cluster(members: usize) -> Vec<Self> {
        let mut servers: Vec<_> = (0..members)
            .map(|number| Self {
                process: None,
                name: format!("member{number}"),
                port: free_port(),
                peer_port: free_port(),
                cluster: String::new(),
                folder: Folder::in_memory(),
            })
            .collect();
        let peers = servers.iter();
        let peers = peers.map(|server| format!("{}={}", server.name, server.peer_url()));
        let cluster = peers.collect::<Vec<_>>().join(",");
        for server in &mut servers {
            server.cluster.clone_from(&cluster);
            server.spawn();
        }
        for server in &servers {
            server.answers();
        }
        servers
    }

    /// The URL of locks under `prefix`.
    pub fn url(&self, prefix: &str) -> String {
        format!("etcd://{}/{prefix}", self.address())
    }

    /// Its address for clients.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Its API, as another client.
    pub fn gateway(&self) -> Gateway {
        Gateway::new(self.address())
    }

    /// A look at the locks under `prefix` whose names begin with `namespace`.
    pub fn probe(&self, prefix: &str, namespace: &str) -> EtcdProbe {
        EtcdProbe::new(self.gateway(), prefix, namespace)
    }

    /// Whether this server leads its cluster.
    pub fn leads(&self) -> bool {
        self.gateway().leads()
    }

    /// Stops the process where it is; connections stay open and nothing answers.
    pub fn pause(&self) {
        self.running().pause();
    }

    /// Lets a paused server go on.
    pub fn resume(&self) {
        self.running().resume();
    }

    /// Kills the server (SIGKILL).
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again on the same port, after [`kill`](Self::kill) or instead of the running one.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub fn restart(&mut self) {
        self.kill();
        self.spawn();
        self.answers();
    }

    fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer_port)
    }

    fn spawn(&mut self) {
        let log = self.folder.path().join("log");
        let log = fs::File::options().create(true).append(true).open(log);
        let log = log.expect("a log can be made");
        let client_url = format!("http://{}", self.address());
        let peer_url = self.peer_url();
        let child = Command::new(program())
            .args(["--name", &self.name])
            .arg("--data-dir")
            .arg(self.folder.path().join("data"))
            .args(["--listen-client-urls", &client_url])
            .args(["--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url])
            .args(["--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &self.cluster])
            .args(["--initial-cluster-state", "new"])
            .env_remove("ETCD_NAME")
            .env("ETCD_UNSUPPORTED_ARCH", "arm64")
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a file can be shared"))
            .stdout(log)
            .spawn()
            .unwrap_or_else(|error| missing(&error));
        self.process = Some(Leashed::new(child, Some(self.folder.path())));
    }

    fn answers(&self) {
        let gateway = self.gateway();
        wait::until("etcd answers", START, || gateway.is_healthy());
    }

    fn running(&self) -> &Leashed {
        self.process.as_ref().expect("the server is running")
    }
}

/// The URL of locks under `prefix` on a whole cluster.
pub fn url_of(servers: &[Etcd], prefix: &str) -> String {
    let members = servers.iter().map(|server| server.address().to_string());
    let members = members.collect::<Vec<_>>().join(",");
    format!("etcd://{members}/{prefix}")
}

fn program() -> PathBuf {
    std::env::var_os("LEASEHOLD_TEST_ETCD").map_or_else(|| "etcd".into(), PathBuf::from)
}

fn missing(error: &std::io::Error) -> ! {
    panic!(
        "the behaviour tests need the program etcd ({error}): install it with `apt-get install etcd-server`, \
         `dnf install etcd` or `brew install etcd`, or name it in LEASEHOLD_TEST_ETCD"
    )
}
