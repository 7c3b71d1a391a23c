//! Real ZooKeeper servers: one for all tests of a program, with a chroot for each, or one of a
//! test's own, or an ensemble of three.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::LazyLock;
use std::time::Duration;

use crate::folder::Folder;
use crate::process::Leashed;
use crate::server::free_port;
use crate::session_server::{SessionServer, addresses};
use crate::wait;

mod client;
mod curator;
mod java;
mod network;
mod probe;
mod wire;
pub use self::client::{Client, Znode};
pub use self::curator::{CuratorPeer, Errand};
pub use self::network::Network;
pub use self::probe::ZookeeperProbe;

/// How long a server may take from its start to its first answer.
const START: Duration = Duration::from_secs(60);

/// How long a server may take to answer what it is asked by a word of four letters.
const WORD: Duration = Duration::from_secs(1);

/// What runs a server, alone or in an ensemble.
const SERVER: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// The time by which a server counts, unless a test sets another.
const TICK: Duration = Duration::from_millis(500);

/// How long a session may last on the server that tests share: some have the longest ttl, a day.
const LONGEST: Duration = Duration::from_secs(2 * 86_400);

/// The server that tests share.
static SHARED: LazyLock<Zookeeper> =
    LazyLock::new(|| Settings::new().longest_session(LONGEST).start());

/// How a server counts time.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Settings {
    tick: Duration,
    longest_session: Option<Duration>,
    on_disk: bool,
}

impl Settings {
    /// Ticks of half a second: then sessions last from 1 s, which is two ticks, to 10 s, which is
    /// twenty.
    pub fn new() -> Self {
        Self {
            tick: TICK,
            longest_session: None,
            on_disk: false,
        }
    }

    /// Another tick. By default a session lasts from two ticks to twenty.
    pub fn tick(self, tick: Duration) -> Self {
        Self { tick, ..self }
    }

    /// Sessions may last so long instead of twenty ticks.
    pub fn longest_session(self, longest: Duration) -> Self {
        Self {
            longest_session: Some(longest),
            ..self
        }
    }

    /// With its data on a disk, where a change takes as long as it does for users.
    pub fn on_disk(self) -> Self {
        Self {
            on_disk: true,
            ..self
        }
    }

    /// A server of a test's own.
    ///
    /// # Panics
    ///
    /// When Java or the server's packages are missing, or the server does not start; the text says
    /// what to do.
    pub fn start(self) -> Zookeeper {
        let mut servers = vec![Zookeeper::member(1, self)];
        launch(&mut servers);
        servers.pop().expect("one was made")
    }

    /// An ensemble of so many servers.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn ensemble(self, members: usize) -> Vec<Zookeeper> {
        let mut servers = self.members(members);
        let hosts: Vec<_> = servers.iter().map(|_| "127.0.0.1".to_owned()).collect();
        write_members(&mut servers, &hosts);
        launch(&mut servers);
        servers
    }

    /// The same, with a network between each two of the servers.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn ensemble_with_network(self, members: usize) -> (Vec<Zookeeper>, Network) {
        let mut servers = self.members(members);
        let ports: Vec<_> = servers.iter().map(|server| server.peer_ports).collect();
        let network = Network::between(&ports);
        for (at, server) in servers.iter_mut().enumerate() {
            let hosts = server.folder.path().join("hosts");
            fs::write(hosts, network.hosts(at)).expect("a file can be written");
            server.has_hosts = true;
        }
        let hosts: Vec<_> = (0..members).map(network::host).collect();
        write_members(&mut servers, &hosts);
        launch(&mut servers);
        (servers, network)
    }

    fn members(self, members: usize) -> Vec<Zookeeper> {
        (1..=members)
            .map(|id| Zookeeper::member(id, self))
            .collect()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

/// A running server. Dropping it kills the process and removes its folder.
#[derive(Debug)]
pub struct Zookeeper {
    process: Option<Leashed>,
    id: usize,
    settings: Settings,
    port: u16,
    /// Where the other members reach it: for their data, and for elections.
    peer_ports: [u16; 2],
    /// Its lines about the members of its ensemble; none for a server that is alone.
    members: String,
    /// Whether its folder says which host is where.
    has_hosts: bool,
    folder: Folder,
}

impl Zookeeper {
    fn member(id: usize, settings: Settings) -> Self {
        Self {
            process: None,
            id,
            settings,
            port: free_port(),
            peer_ports: [free_port(), free_port()],
            members: String::new(),
            has_hosts: false,
            folder: if settings.on_disk {
                Folder::on_disk()
            } else {
                Folder::in_memory()
            },
        }
    }

    /// Another client of it.
    pub fn client(&self) -> Client {
        Client::new(self.address())
    }

    /// `standalone`, `leader` or `follower`; nothing while it serves no client.
    pub fn mode(&self) -> Option<String> {
        let told = self.word("srvr")?;
        let mode = told.lines().find_map(|line| line.strip_prefix("Mode: "))?;
        Some(mode.to_owned())
    }

    /// The longest session after its next start.
    pub fn set_longest_session(&mut self, longest: Duration) {
        self.settings.longest_session = Some(longest);
    }

    /// What it answers to a word of four letters.
    pub fn word(&self, word: &str) -> Option<String> {
        let mut stream = TcpStream::connect_timeout(&self.address(), WORD).ok()?;
        stream.set_read_timeout(Some(WORD)).ok()?;
        stream.write_all(word.as_bytes()).ok()?;
        let mut told = String::new();
        stream.read_to_string(&mut told).ok()?;
        Some(told)
    }

    /// What is no part of the configuration file, or is read before it.
    fn properties(&self) -> Vec<String> {
        let mut properties = [
            "zookeeper.admin.enableServer=false",
            "zookeeper.4lw.commands.whitelist=*",
        ]
        .map(|property| format!("-D{property}"))
        .to_vec();
        if !self.settings.on_disk {
            // A write is confirmed when the system has it, before the disk has. So a killed process
            // loses nothing, and no test cuts the power. A real server must not be told this.
            properties.push("-Dzookeeper.forceSync=no".to_owned());
            // Its files are in memory, where 64 MiB for each log would be much.
            properties.push("-Dzookeeper.preAllocSize=1024".to_owned());
        }
        if self.has_hosts {
            let hosts = self.folder.path().join("hosts");
            properties.push(format!("-Djdk.net.hosts.file={}", hosts.display()));
        }
        properties
    }

    fn configuration(&self) -> String {
        let mut lines = format!(
            "tickTime={}\ndataDir={}\ninitLimit=10\nsyncLimit=5\nmaxClientCnxns=0\n",
            self.settings.tick.as_millis(),
            self.folder.path().join("data").display()
        );
        if let Some(longest) = self.settings.longest_session {
            let _ = writeln!(lines, "maxSessionTimeout={}", longest.as_millis());
        }
        if self.members.is_empty() {
            let _ = writeln!(
                lines,
                "clientPortAddress=127.0.0.1\nclientPort={}",
                self.port
            );
        }
        lines + &self.members
    }
}

impl SessionServer for Zookeeper {
    type Probe = ZookeeperProbe;

    const SCHEME: &'static str = "zookeeper";

    fn shared() -> &'static Self {
        &SHARED
    }

    fn start() -> Self {
        Settings::new().start()
    }

    fn cluster(members: usize) -> Vec<Self> {
        Settings::new().ensemble(members)
    }

    fn url_of_all(members: impl IntoIterator<Item = SocketAddr>, chroot: &str) -> String {
        url(members, chroot, TICK)
    }

    fn url(&self, chroot: &str) -> String {
        url([self.address()], chroot, self.settings.tick)
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    fn probe(&self, chroot: &str, namespace: &str) -> ZookeeperProbe {
        ZookeeperProbe::new(self.client(), chroot, namespace)
    }

    fn leads(&self) -> bool {
        self.mode().is_some_and(|mode| mode == "leader")
    }

    fn running(&self) -> &Leashed {
        self.process.as_ref().expect("the server is running")
    }

    fn kill(&mut self) {
        self.process = None;
    }

    fn spawn(&mut self) {
        let folder = self.folder.path();
        let log = folder.join("log");
        let log = fs::File::options().create(true).append(true).open(log);
        let log = log.expect("a log can be made");
        let settings = folder.join("zoo.cfg");
        fs::write(&settings, self.configuration()).expect("a file can be written");
        let data = folder.join("data");
        fs::create_dir_all(&data).expect("a folder can be made");
        fs::write(data.join("myid"), self.id.to_string()).expect("a file can be written");
        let child = java::command(&self.properties(), SERVER)
            .arg(settings)
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a file can be shared"))
            .stdout(log)
            .spawn()
            .unwrap_or_else(|error| java::missing(&format!("the program java ({error})")));
        self.process = Some(Leashed::new(child, Some(self.folder.path())));
    }

    fn serves(&mut self) {
        let mut ended = false;
        let served = wait::try_until(START, || {
            ended = self.process.as_mut().is_none_or(|it| it.exited().is_some());
            ended || self.mode().is_some()
        });
        let log = || fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        assert!(!ended, "ZooKeeper has ended:\n{}", log());
        assert!(served.is_some(), "ZooKeeper does not serve:\n{}", log());
    }
}

/// Tells each server of all, by their hosts.
fn write_members(servers: &mut [Zookeeper], hosts: &[String]) {
    let mut members = String::new();
    for (server, host) in servers.iter().zip(hosts) {
        let (id, port, [data, elections]) = (server.id, server.port, server.peer_ports);
        let _ = writeln!(
            members,
            "server.{id}={host}:{data}:{elections};127.0.0.1:{port}"
        );
    }
    for server in servers {
        server.members.clone_from(&members);
    }
}

/// Starts all, and waits until each of them serves.
fn launch(servers: &mut [Zookeeper]) {
    for server in &mut *servers {
        server.spawn();
    }
    for server in servers {
        server.serves();
    }
}

fn url(members: impl IntoIterator<Item = SocketAddr>, chroot: &str, tick: Duration) -> String {
    let (members, tick) = (addresses(members), tick.as_millis());
    format!("zookeeper://{members}/{chroot}?tick={tick}ms")
}
