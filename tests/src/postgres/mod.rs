//! Real PostgreSQL servers. All tests of a program share one server, with a database for each test.
//! A test can also start a separate server.

use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, getuid, kill_process};
use tokio_postgres::{Client, NoTls};

use crate::folder::Folder;
use crate::process::Leashed;
use crate::server::free_port;
use crate::sql_mutants;
use crate::wait;

pub mod mutants;
mod pgbouncer;
mod probe;
mod standby;
mod tls;
pub use self::pgbouncer::PgBouncer;
pub use self::probe::PostgresProbe;

/// Time limit from a server's start to its first answer.
const START: Duration = Duration::from_secs(60);

/// The operating system's user that runs the server if the tests run as root, because the server
/// refuses to run as root.
const USER: &str = "postgres";

/// The database user of the tests. It is a superuser and needs no password.
const ROLE: &str = "leasehold";

/// Name of a database user that needs a password. Tests that use this user must create it first.
pub const WITH_PASSWORD: &str = "guest";

/// The server that tests share.
static SHARED: LazyLock<Postgres> =
    LazyLock::new(|| Postgres::inherited().unwrap_or_else(Postgres::start));

/// Environment variable with the port and the folder of this program's server. The program may run
/// one of its tests again in another process (see `rerun`). The other process then uses the same
/// server.
const INHERITED: &str = "LEASEHOLD_TEST_POSTGRES_AT";

/// A running server. Dropping it kills its processes and removes its folder.
#[derive(Debug)]
pub struct Postgres {
    process: Option<Leashed>,
    port: u16,
    /// Settings of the server's configuration, each `name=value`.
    settings: Vec<String>,
    databases: AtomicU32,
    path: PathBuf,
    /// Folders to remove together with the server; empty for a server of another process.
    folders: Vec<Folder>,
}

/// A separate database for one test.
#[derive(Debug)]
pub struct Database {
    port: u16,
    name: String,
    folder: PathBuf,
}

impl Postgres {
    /// The server that all tests of this program share.
    pub fn shared() -> &'static Self {
        &SHARED
    }

    /// Returns the name and the value of the environment variable that makes another process use
    /// this server. See [`inherited`](Self::inherited).
    pub(crate) fn bequest(&self) -> (&'static str, String) {
        (INHERITED, format!("{} {}", self.port, self.path.display()))
    }

    /// The server that the parent process has named in the environment variable `INHERITED`, if
    /// any.
    fn inherited() -> Option<Self> {
        let given = std::env::var(INHERITED).ok()?;
        let (port, path) = given.split_once(' ')?;
        Some(Self {
            process: None,
            port: port.parse().ok()?,
            settings: Vec::new(),
            databases: AtomicU32::new(0),
            path: path.into(),
            folders: Vec::new(),
        })
    }

    /// Starts a separate server for one test. To be fast, the server confirms commits before they
    /// are on the disk, so a crash of the machine would lose data.
    pub fn start() -> Self {
        Self::start_with(&["fsync=off"])
    }

    /// Like `start`, but the server calls `fsync` before it confirms a commit.
    pub fn durable() -> Self {
        Self::start_with(&["fsync=on"])
    }

    /// Like `durable`, but the server's folder is on a disk, where a commit takes as long as in
    /// production.
    pub fn durable_on_disk() -> Self {
        Self::made_in(owned(Folder::on_disk()), &["fsync=on"])
    }

    /// Starts a separate server for one test with these settings, each `name=value`.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start.
    pub fn start_with(settings: &[&str]) -> Self {
        Self::made_in(given_away(), settings)
    }

    fn made_in(folder: Folder, settings: &[&str]) -> Self {
        let data = folder.path().join("data");
        let made = program("initdb")
            .arg("-D")
            .arg(&data)
            .args(["-U", ROLE, "-A", "trust", "-E", "UTF8", "--locale=C", "-N"])
            .output();
        let made = made.unwrap_or_else(|error| missing(&error));
        succeeded("initdb", &made);
        let hosts = format!(
            "host all {WITH_PASSWORD} all scram-sha-256\nhost all,replication all 127.0.0.1/32 trust\nlocal all all trust\n"
        );
        fs::write(data.join("pg_hba.conf"), hosts).expect("a file can be written");
        Self::in_folder(folder, settings)
    }

    /// Starts the server whose data directory is `data` in `folder`.
    fn in_folder(folder: Folder, settings: &[&str]) -> Self {
        let mut server = Self {
            process: None,
            port: free_port(),
            settings: settings.iter().copied().map(str::to_owned).collect(),
            databases: AtomicU32::new(0),
            path: folder.path().to_owned(),
            folders: vec![folder],
        };
        server.restart();
        server
    }

    /// Makes a new database without leasehold's tables.
    ///
    /// # Panics
    ///
    /// Panics if the server does not make the database.
    pub fn database(&self) -> Database {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let database = Database {
            port: self.port,
            name: format!("test_{}_{number}", std::process::id()),
            folder: self.path.clone(),
        };
        let create = format!("CREATE DATABASE {}", database.name);
        let made = self.psql(&create).output().expect("psql starts");
        succeeded("psql", &made);
        database
    }

    /// Makes a new database with leasehold's tables.
    ///
    /// # Panics
    ///
    /// Panics if the server does not make the tables.
    pub fn migrated(&self) -> Database {
        let database = self.database();
        let mut psql = self.psql(&sql_mutants::schema());
        let made = psql.args(["-d", &database.name]).output();
        succeeded("psql", &made.expect("psql starts"));
        database
    }

    fn psql(&self, sql: &str) -> Command {
        psql(&self.path, self.port, sql)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Stops all processes of the server (SIGSTOP). Connections stay open, and nothing answers.
    pub fn pause(&self) {
        // The main process is stopped first, so that it starts no further processes.
        self.running().pause();
        self.signal_children(Signal::STOP);
    }

    /// Lets a paused server run again.
    pub fn resume(&self) {
        self.signal_children(Signal::CONT);
        self.running().resume();
    }

    /// Kills all processes of the server (SIGKILL).
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.pause();
            let children = children(process.id());
            process.kill();
            for child in &children {
                // An error is ignored, because the child may have ended already.
                let _ = kill_process(*child, Signal::KILL);
            }
            wait::until("all its processes end", START, || {
                let ended = |child: &Pid| {
                    let path = format!("/proc/{}/stat", child.as_raw_nonzero());
                    fs::read_to_string(path).map_or(true, |stat| stat.contains(") Z "))
                };
                children.iter().all(ended)
            });
        }
    }

    /// Kills the server if it runs, and starts it again on the same port.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start.
    pub fn restart(&mut self) {
        self.kill();
        let log = fs::File::create(self.path.join("log")).expect("a log can be made");
        let child = program("postgres")
            .arg("-D")
            .arg(self.path.join("data"))
            .arg("-k")
            .arg(&self.path)
            .args(["-p", &self.port.to_string()])
            .args([
                "-c",
                "listen_addresses=127.0.0.1",
                "-c",
                "max_connections=300",
            ])
            // With this `deadlock_timeout`, the server detects and counts each deadlock before a
            // request of a pool times out.
            .args(["-c", "shared_buffers=32MB", "-c", "deadlock_timeout=50ms"])
            // A killed server leaves its shared memory behind. With this setting the memory is a
            // file in the server's folder, and is removed together with the folder.
            .args(["-c", "dynamic_shared_memory_type=mmap"])
            .args(self.settings.iter().flat_map(|setting| ["-c", setting]))
            .stderr(log.try_clone().expect("a file can be shared"))
            .stdout(log)
            .spawn()
            .unwrap_or_else(|error| missing(&error));
        self.process = Some(Leashed::new(child, Some(&self.path)));
        wait::until("PostgreSQL answers", START, || {
            let answer = self.psql("SELECT 1").stderr(Stdio::null()).output();
            answer.is_ok_and(|answer| answer.status.success())
        });
    }

    fn signal_children(&self, signal: Signal) {
        for child in children(self.running().id()) {
            // An error is ignored, because the child may have ended already.
            let _ = kill_process(child, signal);
        }
    }

    /// The process id of the server.
    pub fn id(&self) -> u32 {
        self.running().id()
    }

    fn running(&self) -> &Leashed {
        self.process.as_ref().expect("the server is running")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Database {
    /// The URL for a pool that creates the tables.
    pub fn migrating_url(&self) -> String {
        format!("{}?migrate=1", self.url())
    }

    /// The URL for a pool that does not create the tables.
    pub fn url(&self) -> String {
        self.url_of(ROLE)
    }

    /// The URL for a pool with this database user. A colon and a password may follow the name in
    /// `user`.
    pub fn url_of(&self, user: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{}", self.port, self.name)
    }

    /// The URL for a pool that finds the primary among these servers.
    pub fn url_on(&self, servers: &[&Postgres]) -> String {
        let hosts = servers
            .iter()
            .map(|server| format!("127.0.0.1:{}", server.port));
        let hosts: Vec<_> = hosts.collect();
        format!("postgres://{ROLE}@{}/{}", hosts.join(","), self.name)
    }

    /// Returns the same database on `server`: a standby of this database's server, or the server
    /// that has replaced it.
    #[must_use]
    pub fn on(&self, server: &Postgres) -> Self {
        Self {
            port: server.port,
            name: self.name.clone(),
            folder: server.path.clone(),
        }
    }

    /// The server's address, for use by a proxy.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The URL for a pool that reaches the server at `address`, such as the address of a proxy.
    pub fn url_over(&self, address: SocketAddr) -> String {
        format!("postgres://{ROLE}@{address}/{}", self.name)
    }

    /// The URL for a pool that uses the server's Unix socket.
    pub fn socket_url(&self) -> String {
        let (name, port) = (&self.name, self.port);
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://{ROLE}@{folder}:{port}/{name}")
    }

    /// Runs a statement, and ignores its failure.
    ///
    /// # Panics
    ///
    /// Panics if `psql` does not start.
    pub fn try_run(&self, sql: &str) {
        let mut psql = psql(&self.folder, self.port, sql);
        let psql = psql.args(["-d", &self.name]).stderr(Stdio::null());
        psql.output().expect("psql starts");
    }

    /// Connects a plain client, as an application does.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer.
    pub async fn client(&self) -> Client {
        let connected = tokio_postgres::connect(&self.url(), NoTls).await;
        let (client, connection) = connected.expect("the server answers");
        tokio::spawn(connection);
        client
    }

    /// Connects a probe, which reads the locks without a pool. The tables must exist.
    pub fn probe(&self, prefix: &str) -> PostgresProbe {
        PostgresProbe::new(self.url(), prefix)
    }

    /// Like `probe`, but uses the server's Unix socket. The probe then works even if the server
    /// refuses TCP connections without TLS.
    pub fn probe_over_socket(&self, prefix: &str) -> PostgresProbe {
        PostgresProbe::new(self.socket_url(), prefix)
    }
}

/// A `psql` command that runs `sql` over the Unix socket in `folder`.
fn psql(folder: &Path, port: u16, sql: &str) -> Command {
    let mut psql = Command::new(bin().join("psql"));
    psql.arg("-h")
        .arg(folder)
        .args(["-U", ROLE, "-d", "postgres", "-qAt"])
        .args(["-p", &port.to_string(), "-c", sql])
        .stdin(Stdio::null());
    psql
}

/// Makes a folder for a server. The folder belongs to the user that runs the server.
fn given_away() -> Folder {
    owned(Folder::new())
}

fn owned(folder: Folder) -> Folder {
    if let Some((user, group)) = other_user() {
        let owned = chown(folder.path(), Some(user), Some(group));
        owned.expect("a folder can be given away");
    }
    folder
}

/// The user and the group for the server if the tests run as root, otherwise `None`.
fn other_user() -> Option<(u32, u32)> {
    if !getuid().is_root() {
        return None;
    }
    let id = |what: &str| {
        let printed = Command::new("id").args([what, USER]).output().ok()?;
        String::from_utf8(printed.stdout).ok()?.trim().parse().ok()
    };
    let ids = id("-u").zip(id("-g"));
    Some(ids.unwrap_or_else(|| panic!("there is no user `{USER}`; {INSTALL}")))
}

/// Returns a command that runs a program of PostgreSQL. If the tests run as root, the program runs
/// as another user, because PostgreSQL refuses to run as root.
fn program(name: &str) -> Command {
    let path = bin().join(name);
    let Some((user, group)) = other_user() else {
        return quiet(Command::new(path));
    };
    let mut program = Command::new("setpriv");
    program
        .arg(format!("--reuid={user}"))
        .arg(format!("--regid={group}"))
        .arg("--clear-groups")
        .arg(path);
    quiet(program)
}

fn quiet(mut program: Command) -> Command {
    program.current_dir("/").stdin(Stdio::null());
    program
}

/// Returns the folder of PostgreSQL's programs: the value of `LEASEHOLD_TEST_POSTGRES`, otherwise
/// the folder of Debian's newest version. Without either, the result is empty, so the programs are
/// found through `PATH`.
fn bin() -> PathBuf {
    if let Some(given) = std::env::var_os("LEASEHOLD_TEST_POSTGRES") {
        return given.into();
    }
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let number = |path: &Path| {
        path.file_name()
            .and_then(OsStr::to_str)?
            .parse::<u32>()
            .ok()
    };
    let versions = versions.flatten().map(|entry| entry.path());
    let newest = versions.max_by_key(|path| number(path));
    newest.map(|path| path.join("bin")).unwrap_or_default()
}

/// The child processes of `process`.
fn children(process: u32) -> Vec<Pid> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    let ids = text.split_whitespace();
    ids.filter_map(|id| Pid::from_raw(id.parse().ok()?))
        .collect()
}

const INSTALL: &str = "install PostgreSQL with `apt-get install postgresql`, `dnf install postgresql-server`, `apk add postgresql` or `brew install postgresql`";

fn missing(error: &std::io::Error) -> ! {
    panic!("the behaviour tests need the programs of PostgreSQL ({error}): {INSTALL}")
}

fn succeeded(what: &str, output: &Output) {
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {printed}");
}
