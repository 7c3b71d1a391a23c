//! The servers that a URL names, with the credentials for them.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::base::seeded::seeded;
use crate::error::LockError;
use crate::host::host;
use crate::store::Failure;
use crate::store::credentials::Provider;
use crate::store::login;
use crate::store::tls::Tls;
use crate::store::url_options::{UrlOptions, authority};

const FORM: &str = "postgres://user:password@host[:port]/database with special characters percent-encoded, or postgres:///database?host=/run/postgresql";

/// Settings of each session. They override the defaults of the role and of the database.
///
/// The SQL functions of leasehold rely on READ COMMITTED. The server plans their statements once,
/// perhaps while the tables are still small. So plans without indexes, which suit only small
/// tables, are switched off.
///
/// `search_path` excludes `public`, because other roles may create functions and operators there,
/// and none of these may run.
const SESSION: &str = "-c default_transaction_isolation=read\\ committed \
    -c default_transaction_read_only=off -c default_transaction_deferrable=off \
    -c statement_timeout=0 -c jit=off -c plan_cache_mode=force_generic_plan \
    -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off \
    -c search_path=pg_catalog,pg_temp";

/// The protection that `sslmode` requires of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Security {
    Plain,
    /// Encrypted, but the server is not verified.
    Encrypted,
    /// Encrypted, and an authority has certified the server.
    Certified,
    /// Encrypted, and an authority has certified the server's name.
    Named,
}

/// One or several servers, one of which accepts writes. `Display` shows no credentials.
#[derive(Clone)]
pub(super) struct Hosts {
    /// One for each server.
    configs: Vec<Config>,
    security: Security,
    pub(super) tls: Tls,
    /// The program's source of credentials, if there is one. It replaces the credentials in
    /// `configs`.
    logins: Option<Provider>,
}

/// The servers with the credentials for one connection.
pub(super) struct Access {
    pub(super) configs: Vec<Config>,
    /// Time at which the connection is replaced, with new credentials.
    pub(super) renew_at: Option<Instant>,
    /// True if the next attempt may get other credentials, so a refused login is retried.
    changes: bool,
}

impl Access {
    /// Adds the user's name to the text of the failure of a refused login.
    pub(super) fn refused(&self, failure: Failure) -> Failure {
        let user = self.configs.first().and_then(Config::get_user);
        login::refused(failure, user.unwrap_or_default(), self.changes)
    }
}

impl Hosts {
    /// Reads the hosts, and removes `sslmode` and `host` from the options. `keeps_session`: true if
    /// there is no pooler between the pool and the server, so that a session keeps its settings.
    pub(super) fn parse(
        base: &str,
        options: &mut UrlOptions<'_>,
        keeps_session: bool,
    ) -> Result<Self, LockError> {
        let security = security(options.take("sslmode"))?;
        let host = options.take("host").map(|host| format!("?host={host}"));
        let url = format!("{base}{}", host.unwrap_or_default());
        // The driver's error is left out: its text may quote a part of the URL, and with it the
        // password.
        let misread =
            |_| LockError::config(format!("the lock store's URL is invalid; write {FORM}"));
        // Refuses a second `@`, which comes from an unescaped password. The driver would mistake
        // the end of the password for a host, a database or a socket, and leasehold's messages show
        // these.
        let rest = url.split_once("://").map_or(&*url, |(_, rest)| rest);
        let (_, behind) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if 1 < rest.matches('@').count() || behind.contains('@') {
            return Err(LockError::config(format!(
                "the lock store's URL has one `@` too many; write {FORM}"
            )));
        }
        let all: Config = url.parse().map_err(misread)?;
        if all.get_hosts().is_empty() {
            return Err(LockError::config(format!(
                "the lock store's URL names no host; write {FORM}"
            )));
        }
        let ports = all.get_ports();
        if ports.len() > 1 && ports.len() != all.get_hosts().len() {
            return Err(LockError::config(
                "the lock store's URL names the port of some hosts only; write the port after each \
                 host, or after none",
            ));
        }
        let configs = all.get_hosts().iter().enumerate().map(|(number, host)| {
            let port = ports.get(number).or(ports.first()).copied();
            of_host(&all, host, port, security, keeps_session)
        });
        Ok(Self {
            configs: configs.collect(),
            security,
            tls: Tls::default(),
            logins: None,
        })
    }

    /// Returns the same servers, with these certificates.
    pub(super) fn with_tls(mut self, tls: &Tls) -> Result<Self, LockError> {
        if self.security == Security::Plain {
            tls.refuse()?;
        }
        #[cfg(feature = "tls")]
        tls.check()?;
        self.tls = tls.afresh();
        Ok(self)
    }

    /// Returns the same servers, with this source of credentials.
    pub(super) fn with_logins(mut self, logins: Option<&Provider>) -> Self {
        self.logins = logins.cloned();
        self
    }

    /// Returns the servers with the user and the password for the next connection.
    pub(super) async fn access(&self, limit: Duration) -> Result<Access, Failure> {
        let mut access = Access {
            configs: self.configs.clone(),
            renew_at: None,
            changes: false,
        };
        if let Some(logins) = &self.logins {
            let login = logins.next(limit).await?;
            for config in &mut access.configs {
                if let Some(user) = login.credentials.user() {
                    config.user(user);
                }
                config.password(login.credentials.password());
            }
            (access.renew_at, access.changes) = (login.renew_at, true);
        }
        Ok(access)
    }

    /// True if connections are encrypted, but the servers are not verified. Another server could
    /// then pose as one of them.
    pub(super) fn is_unproven(&self) -> bool {
        self.security == Security::Encrypted && self.tls.ca.is_none() && !self.tls.is_given()
    }

    pub(super) fn security(&self) -> Security {
        self.security
    }

    /// Returns the first host on another machine.
    pub(super) fn elsewhere(&self) -> Option<&str> {
        let mut hosts = self.configs.iter().flat_map(Config::get_hosts);
        hosts.find_map(|host| match host {
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

fn security(sslmode: Option<&str>) -> Result<Security, LockError> {
    let security = match sslmode {
        None | Some("disable" | "allow" | "prefer") => return Ok(Security::Plain),
        Some("require") => Security::Encrypted,
        Some("verify-ca") => Security::Certified,
        Some("verify-full") => Security::Named,
        Some(_) => {
            return Err(LockError::config(
                "the `sslmode` of the lock store's URL is unknown; write `disable`, `require`, `verify-ca` or `verify-full`",
            ));
        }
    };
    if cfg!(not(feature = "tls")) {
        return Err(LockError::config(
            "the `sslmode` of the lock store's URL needs the feature `tls` of the crate `leasehold`, which is off",
        ));
    }
    Ok(security)
}

fn of_host(
    all: &Config,
    name: &Host,
    port: Option<u16>,
    security: Security,
    keeps_session: bool,
) -> Config {
    let mut config = Config::new();
    let (host, is_socket) = match name {
        Host::Tcp(name) => (config.host(name), false),
        #[cfg(unix)]
        Host::Unix(path) => (config.host_path(path), true),
    };
    // A Unix socket has no TLS, and needs none.
    host.ssl_mode(if security == Security::Plain || is_socket {
        SslMode::Disable
    } else {
        SslMode::Require
    })
    .port(port.unwrap_or(5432))
    .application_name(format!("leasehold:{}:{}", self::host(), std::process::id()));
    if let Some(user) = all.get_user() {
        config.user(user);
    }
    if let Some(password) = all.get_password() {
        config.password(password);
    }
    if let Some(database) = all.get_dbname() {
        config.dbname(database);
    }
    if keeps_session {
        let session = if seeded!(SearchPathTrusted) {
            SESSION.replace("-c search_path=pg_catalog,pg_temp", "")
        } else {
            SESSION.to_owned()
        };
        config.options(session);
    }
    if all.get_hosts().len() > 1 {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    config
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        let mut socket = None;
        for (number, config) in self.configs.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let port = config.get_ports().first().copied();
            match config.get_hosts().first() {
                Some(Host::Tcp(host)) => {
                    write!(f, "{comma}{}", authority(host, port.unwrap_or(5432)))?;
                }
                #[cfg(unix)]
                Some(Host::Unix(path)) => socket = Some(path),
                None => {}
            }
        }
        let database = self.configs.first().and_then(Config::get_dbname);
        write!(f, "/{}", database.unwrap_or_default())?;
        match socket {
            Some(path) => write!(f, "?host={}", path.display()),
            None => Ok(()),
        }
    }
}
