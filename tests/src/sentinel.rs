//! A Redis master, its replicas, and the Sentinels that watch them, all of them real processes.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use redis::cmd;

use crate::certificates::Certificates;
use crate::folder::Folder;
use crate::process::Leashed;
use crate::redis_probe::RedisProbe;
use crate::server::{self, Server, ServerOptions, free_port};
use crate::wait;

/// The Sentinels' name for the master.
pub const MASTER: &str = "shop";

/// Time limit for steps that depend on the Sentinels, such as a fail-over. It is long, because a
/// busy machine may delay a Sentinel by two seconds. The Sentinel then does nothing for thirty
/// seconds (its `TILT` mode).
const PATIENCE: Duration = Duration::from_secs(180);

/// Silence after which a Sentinel considers a master down, in milliseconds. It is long enough that
/// a short delay on a busy machine does not cause a fail-over.
const DOWN_AFTER_MS: u32 = 1_000;

/// Configuration of the servers and the Sentinels.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Setup {
    server_password: Option<String>,
    sentinel_password: Option<String>,
    certificates: Option<Arc<Certificates>>,
}

impl Setup {
    /// A configuration without passwords or TLS.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requires one password for the servers and another one for the Sentinels.
    pub fn passwords(mut self, server: &str, sentinel: &str) -> Self {
        self.server_password = Some(server.to_owned());
        self.sentinel_password = Some(sentinel.to_owned());
        self
    }

    /// Uses TLS between servers and Sentinels, and with clients. Clients must have a certificate.
    pub fn tls(mut self, certificates: Certificates) -> Self {
        self.certificates = Some(Arc::new(certificates));
        self
    }

    /// Starts one Sentinel that names this server as the master, even if the server has another
    /// role.
    ///
    /// # Panics
    ///
    /// Panics if the Sentinel does not start.
    pub fn start_naming(self, server: Server) -> Deployment {
        let sentinels = vec![Some(self.sentinel(server.announced_port()))];
        Deployment {
            setup: self,
            servers: vec![Some(server)],
            sentinels,
        }
    }

    /// Starts one Sentinel that names the server at this port of 127.0.0.1 as the master.
    ///
    /// # Panics
    ///
    /// Panics if the Sentinel does not start.
    pub fn start_naming_port(self, port: u16) -> Deployment {
        Deployment {
            sentinels: vec![Some(self.sentinel(port))],
            setup: self,
            servers: Vec::new(),
        }
    }

    /// Starts one master, two replicas and three Sentinels, and waits until they all know each
    /// other.
    ///
    /// # Panics
    ///
    /// Panics if they do not find each other.
    pub fn start(self) -> Deployment {
        let master = self.server().start();
        let replica = || self.server().replica_of(&master).start();
        let servers = vec![replica(), replica()];
        let sentinels = (0..3)
            .map(|_| Some(self.sentinel(master.announced_port())))
            .collect();
        let mut deployment = Deployment {
            setup: self,
            servers: servers.into_iter().map(Some).collect(),
            sentinels,
        };
        deployment.servers.insert(0, Some(master));
        deployment.wait_until_complete();
        deployment
    }

    fn server(&self) -> ServerOptions {
        let options = ServerOptions::new()
            .option("repl-diskless-sync-delay", &["0"])
            .option("repl-ping-replica-period", &["1"]);
        let options = match &self.certificates {
            Some(certificates) => options
                .tls(certificates)
                .option("tls-replication", &["yes"]),
            None => options,
        };
        match &self.server_password {
            Some(password) => options.password(password).option("masterauth", &[password]),
            None => options,
        }
    }

    fn sentinel(&self, master: u16) -> Sentinel {
        for _ in 0..20 {
            if let Some(sentinel) = self.try_sentinel(master) {
                return sentinel;
            }
        }
        panic!("redis-server --sentinel does not start")
    }

    /// Starts a Sentinel. Returns `None` if the process ends before its first answer, usually
    /// because another process has taken the port.
    fn try_sentinel(&self, master: u16) -> Option<Sentinel> {
        let (folder, port) = (Folder::new(), free_port());
        let tls_port = self.certificates.as_ref().map(|_| free_port());
        let path = folder.path().join("sentinel.conf");
        let text = self.text(port, tls_port, master);
        fs::write(&path, text).expect("a configuration can be written");
        let log = fs::File::create(folder.path().join("log")).expect("a log file can be made");
        let child = Command::new(server::program())
            .arg(&path)
            .arg("--sentinel")
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a file can be shared"))
            .stdout(log)
            .spawn()
            .expect("redis-server is installed");
        let mut sentinel = Sentinel {
            process: Leashed::new(child, Some(folder.path())),
            port,
            tls_port,
            password: self.sentinel_password.clone(),
            _folder: folder,
        };
        let mut ended = false;
        wait::until("the Sentinel answers", PATIENCE, || {
            ended = sentinel.process.exited().is_some();
            ended || RedisProbe::answers(&sentinel.url())
        });
        (!ended).then_some(sentinel)
    }

    fn text(&self, port: u16, tls_port: Option<u16>, master: u16) -> String {
        let mut text = format!(
            "port {port}\nbind 127.0.0.1\n\
             sentinel monitor {MASTER} 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}\n\
             sentinel failover-timeout {MASTER} 5000\n\
             sentinel parallel-syncs {MASTER} 2\n"
        );
        if let (Some(certificates), Some(port)) = (&self.certificates, tls_port) {
            let _ = writeln!(text, "tls-replication yes");
            for (name, value) in certificates.settings(port) {
                let _ = writeln!(text, "{name} {value}");
            }
        }
        if let Some(password) = &self.server_password {
            let _ = writeln!(text, "sentinel auth-pass {MASTER} {password}");
        }
        if let Some(password) = &self.sentinel_password {
            let _ = writeln!(
                text,
                "requirepass {password}\nsentinel sentinel-pass {password}"
            );
        }
        text
    }
}

#[derive(Debug)]
struct Sentinel {
    process: Leashed,
    /// The port without TLS.
    port: u16,
    tls_port: Option<u16>,
    password: Option<String>,
    _folder: Folder,
}

impl Sentinel {
    fn url(&self) -> String {
        match &self.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}/", self.port),
            None => format!("redis://127.0.0.1:{}/", self.port),
        }
    }

    /// Returns one field of the Sentinel's information on the master.
    fn field(&self, name: &str) -> Option<String> {
        let probe = RedisProbe::connect(&self.url());
        let reply: Vec<String> = probe
            .try_run(cmd("SENTINEL").arg("MASTER").arg(MASTER))
            .ok()?;
        let found = reply.chunks_exact(2).find(|pair| pair[0] == name)?;
        Some(found[1].clone())
    }

    fn master(&self) -> u16 {
        let mut port = None;
        wait::until("a Sentinel reports the master's port", PATIENCE, || {
            port = self.field("port").and_then(|port| port.parse().ok());
            port.is_some()
        });
        port.expect("it was notified")
    }
}

/// Running servers and Sentinels: by default one master, two replicas and three Sentinels.
#[derive(Debug)]
pub struct Deployment {
    setup: Setup,
    servers: Vec<Option<Server>>,
    sentinels: Vec<Option<Sentinel>>,
}

impl Deployment {
    /// Starts a deployment without passwords or TLS.
    pub fn start() -> Self {
        Setup::new().start()
    }

    /// The URL of all running Sentinels (`redis-sentinel://…` or `rediss-sentinel://…`), with the
    /// passwords if there are any.
    pub fn url(&self) -> String {
        let ports = self.running_sentinels();
        let hosts = ports.map(|one| format!("127.0.0.1:{}", one.tls_port.unwrap_or(one.port)));
        let hosts: Vec<_> = hosts.collect();
        let scheme = match self.setup.certificates {
            Some(_) => "rediss-sentinel",
            None => "redis-sentinel",
        };
        let user = self.setup.server_password.as_ref();
        let user = user.map_or(String::new(), |password| format!(":{password}@"));
        let own = self.setup.sentinel_password.as_ref();
        let own = own.map_or(String::new(), |password| {
            format!("?sentinel_password={password}")
        });
        format!("{scheme}://{user}{}/{MASTER}{own}", hosts.join(","))
    }

    /// The ports without TLS of the running Sentinels.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        self.running_sentinels().map(|sentinel| sentinel.port)
    }

    /// The server that the first running Sentinel names as the master.
    ///
    /// # Panics
    ///
    /// Panics if that server does not run, for example because the Sentinels have not yet noticed
    /// that it was killed.
    pub fn master(&self) -> &Server {
        let port = self.named();
        let mut running = self.servers.iter().flatten();
        running
            .find(|server| server.announced_port() == port)
            .expect("the master that the Sentinels name runs")
    }

    /// The running servers, except for the master.
    pub fn replicas(&self) -> impl Iterator<Item = &Server> {
        let master = self.named();
        let running = self.servers.iter().flatten();
        running.filter(move |server| server.announced_port() != master)
    }

    /// The port of the server that the first running Sentinel names as the master.
    ///
    /// # Panics
    ///
    /// Panics if no Sentinel runs.
    pub fn named(&self) -> u16 {
        let mut sentinels = self.running_sentinels();
        sentinels.next().expect("a Sentinel runs").master()
    }

    /// Kills the master (SIGKILL) and waits until all Sentinels name another master. Returns the
    /// killed server, which can be started again.
    ///
    /// # Panics
    ///
    /// Panics if no fail-over happens.
    pub fn fail_over(&mut self) -> Server {
        let dead = self.kill_master();
        self.wait_for_fail_over(dead.announced_port());
        dead
    }

    /// Kills the master (SIGKILL) without waiting for a fail-over.
    ///
    /// # Panics
    ///
    /// Panics if no server is the master.
    pub fn kill_master(&mut self) -> Server {
        let port = self.named();
        let is_master = |server: &Option<Server>| {
            server
                .as_ref()
                .is_some_and(|one| one.announced_port() == port)
        };
        let at = self.servers.iter().position(is_master);
        let mut master = at
            .and_then(|at| self.servers[at].take())
            .expect("the master runs");
        master.kill();
        master
    }

    /// Waits until all Sentinels name a master on another port than `old`.
    ///
    /// # Panics
    ///
    /// Panics if no fail-over happens.
    pub fn wait_for_fail_over(&self, old: u16) {
        wait::until("a fail-over", PATIENCE, || {
            self.running_sentinels()
                .all(|sentinel| sentinel.master() != old)
        });
    }

    /// Starts a killed server, and waits until it is a replica in sync with the master.
    ///
    /// # Panics
    ///
    /// Panics if the server does not become a replica.
    pub fn bring_back(&mut self, mut server: Server) {
        server.restart();
        self.servers.push(Some(server));
        self.wait_until_complete();
    }

    /// Stops the server on this port (SIGSTOP).
    ///
    /// # Panics
    ///
    /// Panics if no server of the deployment runs on this port.
    pub fn pause(&self, port: u16) {
        self.on(port).pause();
    }

    /// Lets a stopped server run again.
    ///
    /// # Panics
    ///
    /// Panics if no server of the deployment runs on this port.
    pub fn resume(&self, port: u16) {
        self.on(port).resume();
    }

    fn on(&self, port: u16) -> &Server {
        let mut running = self.servers.iter().flatten();
        let found = running.find(|server| server.announced_port() == port);
        found.expect("a server runs on that port")
    }

    /// Kills one Sentinel.
    pub fn kill_sentinel(&mut self) {
        if let Some(sentinel) = self.sentinels.iter_mut().find(|one| one.is_some()) {
            *sentinel = None;
        }
    }

    /// Stops one Sentinel (SIGSTOP). The Sentinel then still accepts connections, but answers
    /// nothing.
    pub fn pause_sentinel(&self) {
        if let Some(sentinel) = self.running_sentinels().last() {
            sentinel.process.pause();
        }
    }

    fn running_sentinels(&self) -> impl Iterator<Item = &Sentinel> {
        self.sentinels.iter().flatten()
    }

    /// Waits until all running servers except the master are its replicas and in sync. Also waits
    /// until each Sentinel lists all replicas and all other Sentinels.
    ///
    /// # Panics
    ///
    /// Panics if the deployment is not complete in time.
    pub fn wait_until_complete(&self) {
        let replicas = self.servers.iter().flatten().count() - 1;
        let others = self.running_sentinels().count() - 1;
        wait::until("replicas and Sentinels find each other", PATIENCE, || {
            let knows = |name: &str, count: usize| {
                // The Sentinels also count dead replicas, so they may report more than `count`.
                let reported = |one: &Sentinel| one.field(name)?.parse::<usize>().ok();
                self.running_sentinels()
                    .all(|one| reported(one) >= Some(count))
            };
            knows("num-slaves", replicas)
                && knows("num-other-sentinels", others)
                && self.in_step() == replicas
        });
    }

    /// Number of replicas in sync, reported by the master.
    fn in_step(&self) -> usize {
        let info: String = self.master().probe().run(cmd("INFO").arg("replication"));
        info.matches("state=online").count()
    }
}
