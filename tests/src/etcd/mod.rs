//! Real etcd servers. All tests of a program share one server, with a prefix for each test. A test
//! can also start a separate server or a cluster.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use crate::folder::Folder;
use crate::pipe::Pipe;
use crate::process::Leashed;
use crate::server::free_port;
use crate::session_server::{SessionServer, addresses};
use crate::wait;

mod gateway;
mod probe;
mod tls;
pub use self::gateway::Gateway;
pub use self::probe::EtcdProbe;

/// Time limit from a server's start to its first answer.
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
    /// The proxy through which the other members reach this server. `None` if they reach it
    /// directly.
    network: Option<Pipe>,
    /// The members of the server's cluster, as passed on its command line.
    cluster: String,
    /// The server's port for TLS, in addition to its port without TLS.
    tls: Option<u16>,
    /// Further command-line options.
    arguments: Vec<String>,
    folder: Folder,
}

impl Etcd {
    /// Starts a separate server for one test, with its data on a disk, so that a write takes as
    /// long as in production.
    ///
    /// # Panics
    ///
    /// Panics like [`start`](Self::start).
    pub fn start_on_disk() -> Self {
        let mut server = Self::member(0);
        server.folder = Folder::on_disk();
        let mut servers = Self::started(vec![server]);
        servers.pop().expect("one was started")
    }

    /// Starts a cluster of `members` servers. Each server has a proxy, and the other members reach
    /// the server only through this proxy.
    ///
    /// # Panics
    ///
    /// Panics like [`start`](Self::start).
    pub fn cluster_with_networks(members: usize) -> Vec<Self> {
        let mut servers: Vec<_> = (0..members).map(Self::member).collect();
        for server in &mut servers {
            let port = SocketAddr::from((Ipv4Addr::LOCALHOST, server.peer_port));
            server.network = Some(Pipe::start(port));
        }
        Self::started(servers)
    }

    /// Starts a cluster of `members` servers with further command-line options.
    pub fn cluster_with(members: usize, arguments: &[&str]) -> Vec<Self> {
        let mut servers: Vec<_> = (0..members).map(Self::member).collect();
        for server in &mut servers {
            server.arguments = arguments.iter().map(ToString::to_string).collect();
        }
        Self::started(servers)
    }

    /// Starts a server that gives its users signed tokens (JWT), each valid for an hour.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start.
    pub fn with_signed_tokens() -> Self {
        let mut servers = Self::cluster_with_signed_tokens(1);
        servers.pop().expect("one was started")
    }

    /// Starts a cluster of `members` servers that give their users signed tokens. Each server
    /// accepts the tokens of the others.
    ///
    /// # Panics
    ///
    /// Panics if the servers do not start.
    pub fn cluster_with_signed_tokens(members: usize) -> Vec<Self> {
        let mut servers: Vec<_> = (0..members).map(Self::member).collect();
        let secret = servers[0].folder.path().join("secret");
        fs::write(&secret, "a secret of this test").expect("a file can be written");
        let token = format!("jwt,sign-method=HS256,ttl=1h,priv-key={}", secret.display());
        // The password hash is cheap, so that even a busy machine answers a login in time.
        for server in &mut servers {
            server.arguments = vec![
                format!("--auth-token={token}"),
                "--bcrypt-cost=4".to_owned(),
            ];
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
            tls: None,
            arguments: Vec::new(),
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
        for server in &mut servers {
            server.serves();
        }
        servers
    }

    /// The proxy through which the other members reach this server.
    ///
    /// # Panics
    ///
    /// Panics if the cluster of this server has no proxies.
    pub fn network(&self) -> &Pipe {
        self.network.as_ref().expect("its cluster has networks")
    }

    /// Returns a client of the server's JSON API.
    pub fn gateway(&self) -> Gateway {
        Gateway::new(self.address())
    }

    /// The URL that the other members use.
    fn peer_url(&self) -> String {
        let port = self
            .network
            .as_ref()
            .map(|network| network.address().port());
        format!("http://127.0.0.1:{}", port.unwrap_or(self.peer_port))
    }
}

impl SessionServer for Etcd {
    type Probe = EtcdProbe;

    const SCHEME: &'static str = "etcd";

    fn shared() -> &'static Self {
        &SHARED
    }

    fn start() -> Self {
        let mut servers = Self::cluster(1);
        servers.pop().expect("one was started")
    }

    fn cluster(members: usize) -> Vec<Self> {
        Self::started((0..members).map(Self::member).collect())
    }

    fn url_of_all(members: impl IntoIterator<Item = SocketAddr>, prefix: &str) -> String {
        format!("etcd://{}/{prefix}", addresses(members))
    }

    /// Returns an operation of a transaction: the deletion (field 3) of the key (field 1) `path`.
    fn removal(path: &str) -> Vec<u8> {
        let length = u8::try_from(path.len()).expect("a short key");
        // A longer length would have two bytes.
        assert!(length < 126, "{path} is too long");
        let head = [0x1a, length + 2, 0x0a, length];
        [&head[..], path.as_bytes()].concat()
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    fn probe(&self, prefix: &str, namespace: &str) -> EtcdProbe {
        EtcdProbe::new(self.gateway(), prefix, namespace)
    }

    fn leads(&self) -> bool {
        self.gateway().leads()
    }

    fn running(&self) -> &Leashed {
        self.process.as_ref().expect("the server is running")
    }

    fn kill(&mut self) {
        self.process = None;
    }

    fn spawn(&mut self) {
        let log = self.folder.path().join("log");
        let log = fs::File::options().create(true).append(true).open(log);
        let log = log.expect("a log can be made");
        let client_url = format!("http://{}", self.address());
        let (peer_url, peer_port) = (self.peer_url(), self.peer_port);
        let listens = self.tls.map(|port| format!("https://127.0.0.1:{port}"));
        let listens = [Some(client_url.clone()), listens].into_iter().flatten();
        let listens: Vec<_> = listens.collect();
        let child = Command::new(program())
            .args(["--name", &self.name])
            .arg("--data-dir")
            .arg(self.folder.path().join("data"))
            .args(["--listen-client-urls", &listens.join(",")])
            .args(&self.arguments)
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

    fn serves(&mut self) {
        let gateway = self.gateway();
        wait::until("etcd answers", START, || gateway.is_healthy());
    }
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
