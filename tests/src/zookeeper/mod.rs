//! Real ZooKeeper servers. All tests of a program share one server, and each test uses a separate
//! chroot (path prefix) or namespace. A test can also start a separate server or an ensemble.

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

/// Time limit from a server's start to its first answer.
const START: Duration = Duration::from_secs(60);

/// Time limit for the answer to a four-letter command, such as `srvr`.
const WORD: Duration = Duration::from_secs(1);

/// The Java class of a server, alone or in an ensemble.
const SERVER: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// The tick (basic time unit) of a server, unless a test sets another tick.
const TICK: Duration = Duration::from_millis(500);

/// The longest session of the shared server: two days. Some tests use the longest ttl, one day, and
/// a session must last longer than the ttls of its locks.
const LONGEST: Duration = Duration::from_secs(2 * 86_400);

/// The server that tests share.
static SHARED: LazyLock<Zookeeper> =
    LazyLock::new(|| Settings::new().longest_session(LONGEST).start());

/// Settings of a server: its times and the location of its data.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Settings {
    tick: Duration,
    longest_session: Option<Duration>,
    on_disk: bool,
}

impl Settings {
    /// Returns settings with ticks of half a second. Sessions then last from 1 s (two ticks) to 10
    /// s (twenty ticks).
    pub fn new() -> Self {
        Self {
            tick: TICK,
            longest_session: None,
            on_disk: false,
        }
    }

    /// Sets the tick. By default a session lasts from two ticks to twenty.
    pub fn tick(self, tick: Duration) -> Self {
        Self { tick, ..self }
    }

    /// Sets the longest session, instead of twenty ticks.
    pub fn longest_session(self, longest: Duration) -> Self {
        Self {
            longest_session: Some(longest),
            ..self
        }
    }

    /// Keeps the data on a disk, where a write takes as long as in production.
    pub fn on_disk(self) -> Self {
        Self {
            on_disk: true,
            ..self
        }
    }

    /// Starts a separate server for one test.
    ///
    /// # Panics
    ///
    /// Panics if Java or the server's packages are missing, or if the server does not start. The
    /// message explains what to do.
    pub fn start(self) -> Zookeeper {
        let mut servers = vec![Zookeeper::member(1, self)];
        launch(&mut servers);
        servers.pop().expect("one was made")
    }

    /// Starts an ensemble of `members` servers.
    ///
    /// # Panics
    ///
    /// Panics like [`start`](Self::start).
    pub fn ensemble(self, members: usize) -> Vec<Zookeeper> {
        let mut servers = self.members(members);
        let hosts: Vec<_> = servers.iter().map(|_| "127.0.0.1".to_owned()).collect();
        write_members(&mut servers, &hosts);
        launch(&mut servers);
        servers
    }

    /// Starts an ensemble of `members` servers, with proxies between each pair of them.
    ///
    /// # Panics
    ///
    /// Panics like [`start`](Self::start).
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
    /// Ports on which the other members connect: one for replication, and one for elections.
    peer_ports: [u16; 2],
    /// The configuration lines for all members of this server's ensemble; empty for a single
    /// server.
    members: String,
    /// True if the server's folder has a hosts file with the addresses at which this server reaches
    /// the members.
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

    /// Returns a separate client of this server.
    pub fn client(&self) -> Client {
        Client::new(self.address())
    }

    /// `standalone`, `leader` or `follower`. `None` while the server does not serve clients.
    pub fn mode(&self) -> Option<String> {
        let printed = self.word("srvr")?;
        let mode = printed
            .lines()
            .find_map(|line| line.strip_prefix("Mode: "))?;
        Some(mode.to_owned())
    }

    /// Sets the longest session. The setting takes effect at the server's next start.
    pub fn set_longest_session(&mut self, longest: Duration) {
        self.settings.longest_session = Some(longest);
    }

    /// The answer to a four-letter command, or `None` if there is no answer.
    pub fn word(&self, word: &str) -> Option<String> {
        let mut stream = TcpStream::connect_timeout(&self.address(), WORD).ok()?;
        stream.set_read_timeout(Some(WORD)).ok()?;
        stream.write_all(word.as_bytes()).ok()?;
        let mut printed = String::new();
        stream.read_to_string(&mut printed).ok()?;
        Some(printed)
    }

    /// Returns the settings that are not in the configuration file, as options of the virtual
    /// machine.
    fn properties(&self) -> Vec<String> {
        let mut properties = [
            "zookeeper.admin.enableServer=false",
            "zookeeper.4lw.commands.whitelist=*",
        ]
        .map(|property| format!("-D{property}"))
        .to_vec();
        if !self.settings.on_disk {
            // With this setting, the server confirms a write once the operating system has the
            // data, before the data is on the disk. A killed process loses nothing, and no test
            // cuts the power. Never set this on a production server.
            properties.push("-Dzookeeper.forceSync=no".to_owned());
            // The server's files are in memory, where the default log size of 64 MiB would be too
            // much.
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

    /// Returns the code of the request, and the length and the text of the path.
    fn removal(path: &str) -> Vec<u8> {
        let length = i32::try_from(path.len()).expect("a short path");
        let head = [wire::DELETE, length].map(i32::to_be_bytes).concat();
        [&head[..], path.as_bytes()].concat()
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

/// Sets the configuration lines of each server: the list of all members with their hosts.
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

/// Starts all servers, and waits until each of them answers clients.
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
