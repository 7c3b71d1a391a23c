//! Where the database is, from its URL.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::base::host::host;
use crate::error::LockError;
use crate::store::url_options;

/// What the URL can have behind its `?`.
const OPTIONS: &[&str] = &["migrate", "host", "sslmode"];

const FORM: &str = "postgres://user:password@host[:port]/database with special characters percent-encoded, or postgres:///database?host=/run/postgresql";

/// The session's settings, whatever the defaults of the role and of the database are.
///
/// The functions count on READ COMMITTED. Their plans are made once, before the tables have grown,
/// so they are to go by the indexes.
const SESSION: &str = "-c default_transaction_isolation=read\\ committed \
    -c default_transaction_read_only=off -c default_transaction_deferrable=off \
    -c statement_timeout=0 -c jit=off -c plan_cache_mode=force_generic_plan \
    -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off";

/// A database's address and credentials. `Display` shows no credentials.
#[derive(Clone)]
pub(crate) struct Address {
    config: Config,
    migrates: bool,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        let (base, mut options) = url_options::split(url);
        let migrates = match options.take("migrate") {
            None | Some("0") => false,
            Some("1") => true,
            Some(_) => {
                return Err(LockError::config(
                    "the lock store's URL has the option `migrate`, which is 1, or 0 for the default",
                ));
            }
        };
        let sslmode = options.take("sslmode");
        if !matches!(sslmode, None | Some("disable" | "allow" | "prefer")) {
            return Err(LockError::config(
                "`postgres://` has no TLS yet, so `sslmode` cannot be what it is in the URL; leave it out and keep the server on a network of its own, or use a Unix socket",
            ));
        }
        options.finish(OPTIONS, &["host"])?;
        let url = format!("{base}{}", options.rest());
        // The crate's own text may quote a part of the URL, and with it the password.
        let misread = |_| {
            LockError::config(format!(
                "the lock store's URL is not understood; write {FORM}"
            ))
        };
        let mut config: Config = url.parse().map_err(misread)?;
        if config.get_hosts().is_empty() {
            return Err(LockError::config(format!(
                "the lock store's URL names no host; write {FORM}"
            )));
        }
        config
            .ssl_mode(SslMode::Disable)
            .options(SESSION)
            .application_name(format!("leasehold:{}:{}", host(), std::process::id()))
            .keepalives_idle(Duration::from_secs(30));
        if config.get_hosts().len() > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Ok(Self { config, migrates })
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Whether the pool makes the tables that are missing.
    pub(super) fn migrates(&self) -> bool {
        self.migrates
    }

    /// The first host where what is sent can be read on the way: not on this machine.
    pub(super) fn readable(&self) -> Option<&str> {
        self.config.get_hosts().iter().find_map(|host| match host {
            Host::Tcp(host) => {
                let here = match host.parse::<IpAddr>() {
                    Ok(address) => address.to_canonical().is_loopback(),
                    Err(_) => host.eq_ignore_ascii_case("localhost"),
                };
                (!here).then_some(host.as_str())
            }
            #[cfg(unix)]
            Host::Unix(_) => None,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        let mut socket = None;
        for (number, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            match host {
                Host::Tcp(host) => {
                    let ports = self.config.get_ports();
                    let port = ports.get(number).or(ports.first()).copied();
                    write!(f, "{comma}{host}:{}", port.unwrap_or(5432))?;
                }
                #[cfg(unix)]
                Host::Unix(path) => socket = Some(path),
            }
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())?;
        match socket {
            Some(path) => write!(f, "?host={}", path.display()),
            None => Ok(()),
        }
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
    fn refusals_say_what_to_write_and_keep_passwords() {
        for (url, says) in [
            ("postgres://u:hunter2@h:port/db", "postgres://user"),
            ("postgres:///db", "names no host"),
            ("postgres://u:hunter2@h/db?migrate=yes", "`migrate`"),
            (
                "postgres://u:hunter2@h/db?pooler=1",
                "unknown option `pooler`",
            ),
            ("postgres://u:hunter2@h/db?sslmode=require", "no TLS"),
            ("postgres://u:hunter2@h/db?sslmode=verify-full", "`sslmode`"),
        ] {
            let text = refused(url);
            assert!(text.contains(says), "{url}: {text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn only_this_machine_keeps_a_secret() {
        let readable = |url: &str| {
            Address::parse(url)
                .expect(url)
                .readable()
                .map(str::to_owned)
        };
        assert_eq!(readable("postgres://u@127.0.0.1,localhost,[::1]/db"), None);
        assert_eq!(readable("postgres:///db?host=/run/postgresql"), None);
        assert_eq!(
            readable("postgres://u@127.0.0.1,db.example.org/db"),
            Some("db.example.org".to_owned())
        );
    }
}
