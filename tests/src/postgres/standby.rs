//! Standbys of a server, and their promotion.

use std::time::Duration;

use super::{Postgres, ROLE, given_away, missing, program, succeeded};
use crate::wait;

/// Time limit for a change of a setting, and for a standby to connect, catch up or become primary.
const LIMIT: Duration = Duration::from_secs(60);

impl Postgres {
    /// Starts a standby with the name `name`, and waits until it is connected to this server.
    ///
    /// # Panics
    ///
    /// Panics if the standby does not start.
    #[must_use]
    pub fn standby(&self, name: &str) -> Self {
        let folder = given_away();
        let from = format!(
            "host=127.0.0.1 port={} user={ROLE} application_name={name}",
            self.port()
        );
        let copied = program("pg_basebackup")
            .arg("-D")
            .arg(folder.path().join("data"))
            .args(["-d", &from, "-X", "stream", "-c", "fast", "-R"])
            .output();
        let copied = copied.unwrap_or_else(|error| missing(&error));
        succeeded("pg_basebackup", &copied);
        let settings: Vec<_> = self.settings.iter().map(String::as_str).collect();
        let standby = Self::in_folder(folder, &settings);
        let connected = format!(
            "SELECT count(*) FROM pg_stat_replication WHERE application_name = '{name}' AND state = 'streaming'"
        );
        wait::until("a standby is connected", LIMIT, || {
            self.ask(&connected) == "1"
        });
        standby
    }

    /// Changes a setting of the running server.
    ///
    /// # Panics
    ///
    /// Panics if the setting does not change.
    pub fn set(&self, name: &str, value: &str) {
        self.ask(&format!("ALTER SYSTEM SET {name} = '{value}'"));
        self.ask("SELECT pg_reload_conf()");
        wait::until("a setting is changed", LIMIT, || {
            self.ask(&format!("SHOW {name}")) == value
        });
    }

    /// Makes a standby the primary.
    ///
    /// # Panics
    ///
    /// Panics if the standby does not become the primary.
    pub fn promote(&self) {
        self.ask("SELECT pg_promote(false)");
        wait::until("a standby is promoted", LIMIT, || {
            self.ask("SELECT pg_is_in_recovery()") == "f"
        });
    }

    /// Waits until the standby `name` has applied everything that this server has written so far.
    ///
    /// # Panics
    ///
    /// Panics if that takes too long.
    pub fn wait_for(&self, name: &str) {
        let behind = self.ask("SELECT pg_current_wal_lsn()");
        let caught_up = format!(
            "SELECT count(*) FROM pg_stat_replication WHERE application_name = '{name}' AND replay_lsn >= '{behind}'"
        );
        wait::until("a standby has it all", LIMIT, || {
            self.ask(&caught_up) == "1"
        });
    }

    /// Ends the connections of this server's standbys. A test must pause the standbys before this
    /// call. Otherwise they would connect again, and get the later writes.
    pub fn cut_standbys_off(&self) {
        self.ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_replication");
    }

    /// Runs a statement and returns its result as text. The text is empty if there is no result or
    /// the statement fails.
    ///
    /// # Panics
    ///
    /// Panics if `psql` does not start.
    pub fn ask(&self, sql: &str) -> String {
        let answer = self.psql(sql).output().expect("psql starts");
        String::from_utf8_lossy(&answer.stdout).trim().to_owned()
    }
}
