//! The connection pooler pgbouncer in front of a PostgreSQL server.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Database, Postgres, ROLE, given_away, other_user};
use crate::folder::Folder;
use crate::process::Leashed;
use crate::server::free_port;
use crate::wait;

const START: Duration = Duration::from_secs(30);

/// A pgbouncer that runs each transaction on one of at most two server connections for each
/// database. Dropping this value kills the process.
#[derive(Debug)]
pub struct PgBouncer {
    _process: Leashed,
    port: u16,
    _folder: Folder,
}

impl PgBouncer {
    /// Starts a pgbouncer in front of `server`, with the additional configuration lines `more`.
    ///
    /// # Panics
    ///
    /// Panics if `pgbouncer` is missing or does not start.
    pub fn start(server: &Postgres, more: &[&str]) -> Self {
        let folder = given_away();
        let (port, path) = (free_port(), folder.path().display());
        let config = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {path}/users\npool_mode = transaction\n\
             default_pool_size = 2\nmax_client_conn = 200\nlogfile = {path}/log\n{}\n",
            server.port(),
            more.join("\n")
        );
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::write(&file, text).expect("a file can be written");
            file
        };
        let config = write("pgbouncer.ini", &config);
        write("users", &format!("\"{ROLE}\" \"\"\n"));
        // Debian installs the program in a folder that is not in the `PATH` of every user.
        let debian = Path::new("/usr/sbin/pgbouncer");
        let program = if debian.exists() {
            debian
        } else {
            Path::new("pgbouncer")
        };
        let mut command = match other_user() {
            None => Command::new(program),
            // The tests run as root, so pgbouncer, which refuses to run as root, gets another user.
            Some((user, group)) => {
                let mut command = Command::new("setpriv");
                command
                    .arg(format!("--reuid={user}"))
                    .arg(format!("--regid={group}"))
                    .arg("--clear-groups")
                    .arg(program);
                command
            }
        };
        let child = command
            .arg("-q")
            .arg(config)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = child.expect("`pgbouncer` starts; install it with `apt-get install pgbouncer`");
        let process = Leashed::new(child, Some(folder.path()));
        wait::until("pgbouncer answers", START, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self {
            _process: process,
            port,
            _folder: folder,
        }
    }

    /// The URL for a pool that reaches `database` through this pgbouncer.
    pub fn url(&self, database: &Database) -> String {
        format!(
            "postgres://{ROLE}@127.0.0.1:{}/{}",
            self.port, database.name
        )
    }
}
