//! Real etcd servers: one for all tests of a program, with a prefix for each, or one of a test's
//! own, or a cluster of three.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use crate::pipe::Pipe;
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
    /// What the other members reach it by, unless they reach it directly.
    network: Option<Pipe>,
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

    /// The same, with its data on a disk, where a change takes as long as it does for users.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn start_on_disk() -> Self {
        let mut server = Self::member(0);
        server.folder = Folder::on_disk();
        let mut servers = Self::started(vec![server]);
        servers.pop().expect("one was started")
    }

    /// A cluster of so many servers.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn cluster(members: usize) -> Vec<Self> {
        Self::started((0..members).map(Self::member).collect())
    }

    /// The same, with a network in front of each server, by which the others reach it.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn cluster_with_networks(members: usize) -> Vec<Self> {
        let mut servers: Vec<_> = (0..members).map(Self::member).collect();
        for server in &mut servers {
            let port = SocketAddr::from((Ipv4Addr::LOCALHOST, server.peer_port));
            server.network = Some(Pipe::start(port));
        }
        Self::started(servers)
    }

    fn member(number: usize) -> Self {
        Self {
            process: None,
            name: format!("member{number}"),
            port: free_port(),
            peer_port: free_port(),
            network: None,
            cluster: String::new(),
            folder: Folder::in_memory(),
        }
    }

    fn started(mut servers: Vec<Self>) -> Vec<Self> {
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

    /// The network by which the other members reach it.
    ///
    /// # Panics
    ///
    /// When its cluster has none.
    pub fn network(&self) -> &Pipe {
        self.network.as_ref().expect("its cluster has networks")
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

    /// Where the other members reach it.
    fn peer_url(&self) -> String {
        let port = self
            .network
            .as_ref()
            .map(|network| network.address().port());
        format!("http://127.0.0.1:{}", port.unwrap_or(self.peer_port))
    }

    fn spawn(&mut self) {
        let log = self.folder.path().join("log");
        let log = fs::File::options().create(true).append(true).open(log);
        let log = log.expect("a log can be made");
        let client_url = format!("http://{}", self.address());
        let (peer_url, peer_port) = (self.peer_url(), self.peer_port);
        let child = Command::new(program())
            .args(["--name", &self.name])
            .arg("--data-dir")
            .arg(self.folder.path().join("data"))
            .args(["--listen-client-urls", &client_url])
            .args(["--advertise-client-urls", &client_url])
            .arg("--listen-peer-urls")
            .arg(format!("http://127.0.0.1:{peer_port}"))
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
    url_of_all(servers.iter().map(Etcd::address), prefix)
}

/// The URL of locks under `prefix` on members with these addresses.
pub fn url_of_all(members: impl IntoIterator<Item = SocketAddr>, prefix: &str) -> String {
    let members = members.into_iter().map(|member| member.to_string());
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
