//! The address of the database and the options of its connection, from the pool's URL.

use std::fmt;

use super::hosts::{Hosts, Security};
use crate::base::digits::percent_decoded;
use crate::error::LockError;
use crate::store::credentials::Provider;
use crate::store::tls::Tls;
use crate::store::url_options::{self, UrlOptions};

/// The options that the URL can have after its `?`.
const OPTIONS: &[&str] = &[
    "migrate",
    "host",
    "sslmode",
    "pooler",
    "listen",
    "password_file",
];

/// A database's address and credentials. `Display` shows no credentials.
#[derive(Clone)]
pub(crate) struct Address {
    hosts: Hosts,
    turns: Turns,
    migrates: bool,
    is_pooled: bool,
}

/// The connection on which the server notifies the pool of the pool's turns: times when a key is
/// reserved for the pool.
#[derive(Clone)]
pub(super) enum Turns {
    /// The connection that also carries the pool's requests.
    Here,
    /// A separate connection.
    Beside(Box<Hosts>),
    /// No connection: waiting calls repeat their requests from time to time instead.
    Nowhere,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        let (base, mut options) = url_options::split(url);
        let migrates = is_set(&mut options, "migrate")?;
        let is_pooled = is_set(&mut options, "pooler")?;
        let turns = match options.take("listen") {
            Some("off") => Turns::Nowhere,
            Some(url) => Turns::Beside(Box::new(listener(url)?)),
            None if is_pooled => Turns::Nowhere,
            None => Turns::Here,
        };
        let hosts = Hosts::parse(base, &mut options, !is_pooled)?;
        options.finish(OPTIONS, &[])?;
        Ok(Self {
            hosts,
            turns,
            migrates,
            is_pooled,
        })
    }

    /// Returns the same address, with these certificates for its encrypted connections. Fails if
    /// there are certificates, but no encrypted connection.
    pub(crate) fn with_tls(self, tls: &Tls) -> Result<Self, LockError> {
        let is_plain = self.hosts.security() == Security::Plain;
        let (turns, serves_turns) = match self.turns {
            Turns::Beside(hosts) if hosts.security() != Security::Plain => {
                (Turns::Beside(Box::new(hosts.with_tls(tls)?)), true)
            }
            turns => (turns, false),
        };
        let hosts = if is_plain && serves_turns {
            self.hosts
        } else {
            self.hosts.with_tls(tls)?
        };
        Ok(Self {
            hosts,
            turns,
            ..self
        })
    }

    /// Returns the same address, with this source of credentials. A separate connection for turns
    /// gets it, too.
    pub(crate) fn with_logins(self, logins: Option<&Provider>) -> Self {
        let turns = match self.turns {
            Turns::Beside(hosts) => Turns::Beside(Box::new(hosts.with_logins(logins))),
            turns => turns,
        };
        Self {
            hosts: self.hosts.with_logins(logins),
            turns,
            ..self
        }
    }

    pub(super) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// True if the pool creates missing tables.
    pub(super) fn migrates(&self) -> bool {
        self.migrates
    }

    /// True if a pooler between the pool and the server may run each transaction in another
    /// session.
    pub(super) fn is_pooled(&self) -> bool {
        self.is_pooled
    }

    /// Returns the first host on another machine, among the hosts with unencrypted connections.
    pub(super) fn readable(&self) -> Option<&str> {
        let mut plain = self
            .all_hosts()
            .filter(|hosts| hosts.security() == Security::Plain);
        plain.find_map(Hosts::elsewhere)
    }

    /// Returns the first host on another machine, among the hosts whose identity is not verified.
    pub(super) fn unproven(&self) -> Option<&str> {
        let mut unproven = self.all_hosts().filter(|hosts| hosts.is_unproven());
        unproven.find_map(Hosts::elsewhere)
    }

    /// Returns the servers for requests, and the separate servers for notifications, if any.
    fn all_hosts(&self) -> impl Iterator<Item = &Hosts> {
        let beside = match &self.turns {
            Turns::Beside(hosts) => Some(&**hosts),
            Turns::Here | Turns::Nowhere => None,
        };
        std::iter::once(&self.hosts).chain(beside)
    }
}

/// Reads the servers of the percent-encoded URL in `listen=`.
fn listener(url: &str) -> Result<Hosts, LockError> {
    let misread = || {
        LockError::config(
            "the `listen` of the lock store's URL is invalid; write `off`, or a URL of the server \
             itself, `postgres://…`, percent-encoded",
        )
    };
    let url = percent_decoded(url).ok_or_else(misread)?;
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(misread());
    }
    let (base, mut options) = url_options::split(&url);
    let hosts = Hosts::parse(base, &mut options, true)?;
    options.finish(&["host", "sslmode"], &[])?;
    Ok(hosts)
}

fn is_set(options: &mut UrlOptions<'_>, name: &str) -> Result<bool, LockError> {
    match options.take(name) {
        None | Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(_) => Err(LockError::config(format!(
            "the option `{name}` of the lock store's URL must be 1, or 0 for the default"
        ))),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hosts.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        Address::parse(url).expect(url).to_string()
    }

    fn refused(url: &str) -> String {
        match Address::parse(url) {
            Ok(address) => panic!("{address} was accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn an_address_shows_no_credentials() {
        assert_eq!(
            shown("postgres://u:hunter2@h/db?migrate=1"),
            "postgres://h:5432/db"
        );
        assert_eq!(
            shown("postgresql://u:hunter2@h:1,i:2/db"),
            "postgres://h:1,i:2/db"
        );
        assert_eq!(
            shown("postgres:///db?host=/run/postgresql&sslmode=disable"),
            "postgres:///db?host=/run/postgresql"
        );
    }

    #[test]
    fn refusals_suggest_a_url_and_hide_passwords() {
        for (url, expected) in [
            ("postgres://u:hunter2@h:port/db", "postgres://user"),
            ("postgres:///db", "names no host"),
            ("postgres://u:p@hunter2@h/db", "`@` too many"),
            ("postgres://u:1/hunter2@h/db", "`@` too many"),
            ("postgres://u:1?host=hunter2@h/db", "`@` too many"),
            ("postgres://u:hunter2@h/db?migrate=yes", "`migrate`"),
            ("postgres://u:hunter2@h/db?pooler=yes", "`pooler`"),
            ("postgres://u:hunter2@h/db?listen=h2", "`listen`"),
            (
                "postgres://u@h/db?listen=postgres%3A//u:hunter2@h:port/",
                "postgres://user",
            ),
            ("postgres://u@h/db?listen=postgres%3A//u@h/d%", "`listen`"),
            ("postgres://u:hunter2@h/db?pool=1", "unknown option `pool`"),
            ("postgres://u:hunter2@h/db?sslmode=strict", "`verify-full`"),
        ] {
            let text = refused(url);
            assert!(text.contains(expected), "{url}: {text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    /// Fails if a build without the feature `tls` accepts a URL that requires TLS.
    #[test]
    fn encryption_needs_its_feature() {
        for mode in ["require", "verify-ca", "verify-full"] {
            let url = format!("postgres://u:hunter2@h/db?sslmode={mode}");
            if cfg!(feature = "tls") {
                assert_eq!(shown(&url), "postgres://h:5432/db");
            } else {
                assert!(refused(&url).contains("feature `tls`"));
            }
        }
    }

    #[test]
    fn the_url_sets_the_connection_for_messages() {
        let turns = |url: &str| match Address::parse(url).expect(url).turns {
            Turns::Here => "here".to_owned(),
            Turns::Nowhere => "nowhere".to_owned(),
            Turns::Beside(hosts) => hosts.to_string(),
        };
        assert_eq!(turns("postgres://u@h/db"), "here");
        assert_eq!(turns("postgres://u@h/db?listen=off"), "nowhere");
        assert_eq!(turns("postgres://u@h/db?pooler=1"), "nowhere");
        assert_eq!(
            turns("postgres://u@h:6432/db?pooler=1&listen=postgres%3A%2F%2Fu%40i%2Fdb"),
            "postgres://i:5432/db"
        );
    }

    #[test]
    fn only_local_connections_protect_a_password() {
        let readable = |url: &str| {
            let address = Address::parse(url).expect(url);
            address.readable().map(str::to_owned)
        };
        assert_eq!(readable("postgres://u@127.0.0.1,localhost,[::1]/db"), None);
        assert_eq!(readable("postgres:///db?host=/run/postgresql"), None);
        assert_eq!(
            readable("postgres://u@127.0.0.1,db.example.org/db"),
            Some("db.example.org".to_owned())
        );
        assert_eq!(
            readable("postgres://u@127.0.0.1/db?listen=postgres%3A%2F%2Fu%40turns%2Fdb"),
            Some("turns".to_owned())
        );
        if cfg!(feature = "tls") {
            assert_eq!(readable("postgres://u@h/db?sslmode=verify-full"), None);
            assert_eq!(readable("postgres://u@h/db?sslmode=require"), None);
            let unproven = |mode: &str| {
                let address = Address::parse(&format!("postgres://u@h/db?sslmode={mode}"));
                address.expect(mode).unproven().map(str::to_owned)
            };
            assert_eq!(unproven("require"), Some("h".to_owned()));
            assert_eq!(unproven("verify-ca"), None);
        }
    }
}
