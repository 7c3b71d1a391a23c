//! A server's address, and the settings for connections to it.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use super::login::Access;
use crate::error::LockError;
use crate::store::Failure;
use crate::store::credentials::Provider;
use crate::store::login::Login;
use crate::store::redis::commands::redirect::Endpoint;
use crate::store::tls::Tls;
use crate::store::url_options::{UrlOptions, authority};

/// A server's address and credentials. `Display` shows no credentials.
#[derive(Clone)]
pub(crate) struct Server {
    info: ConnectionInfo,
    /// The pool's source of credentials. If set, it replaces the credentials in `info`.
    logins: Option<Provider>,
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "no handshake"))]
    pub(super) tls: Tls,
}

impl Server {
    /// Parses a URL and the options after its `?`.
    pub(crate) fn parse(base: &str, query: &UrlOptions<'_>) -> Result<Self, LockError> {
        let (known, left): (&[_], &[_]) = if base.starts_with("redis+unix:") {
            (
                &["db", "user", "pass", "replicas", "password_file"],
                &["db", "user", "pass"],
            )
        } else {
            (&["replicas", "password_file"], &[])
        };
        query.finish(known, left)?;
        // Messages show the path, so it must not contain a part of a password.
        if base.starts_with("redis+unix:") && base.contains('@') {
            return Err(LockError::config(
                "the URL of a Unix socket has credentials before its path; write redis+unix:///path?user=…&pass=…, and %40 for \
                 an `@` in the path",
            ));
        }
        let url = format!("{base}{}", query.rest());
        // The error of the crate `redis` is dropped, because it may quote a part of the URL, and
        // with it the password.
        let info = url.as_str().into_connection_info().map_err(|_| {
            LockError::config(
                "the lock store's URL is invalid; write redis://[user:password@]host[:port][/db] \
                 with special characters percent-encoded, or redis+unix:///path",
            )
        })?;
        if base.contains('#') {
            return Err(LockError::config(
                "the lock store's URL ends at its `#`; the server's certificate is always \
                 verified, so there is no `#insecure`: give the pool its authority with `tls_ca`; \
                 write %23 for a `#` elsewhere",
            ));
        }
        Ok(Self {
            info,
            logins: None,
            tls: Tls::default(),
        })
    }

    /// Returns the same server with the certificates in `tls`.
    pub(crate) fn with_tls(self, tls: &Tls) -> Result<Self, LockError> {
        #[cfg(feature = "tls")]
        let info = tls.apply(self.info)?;
        #[cfg(not(feature = "tls"))]
        let info = tls.refuse().map(|()| self.info)?;
        let (tls, logins) = (tls.afresh(), self.logins);
        Ok(Self { info, logins, tls })
    }

    /// Returns the same server, with this source of credentials.
    pub(crate) fn with_logins(self, logins: Option<&Provider>) -> Self {
        Self {
            logins: logins.cloned(),
            ..self
        }
    }

    /// Returns the user and the password for the next connection.
    pub(crate) async fn access(&self, limit: Duration) -> Result<Access, Failure> {
        let settings = self.info.redis_settings();
        let user = settings.username().map(str::to_owned);
        let Some(logins) = &self.logins else {
            return Ok(Access {
                password: settings.password().map(str::to_owned),
                user,
                renew_at: None,
                changes: false,
            });
        };
        let Login {
            credentials,
            renew_at,
        } = logins.next(limit).await?;
        Ok(Access {
            user: credentials.user().map(str::to_owned).or(user),
            password: Some(credentials.password().to_owned()),
            renew_at,
            changes: true,
        })
    }

    pub(crate) fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    pub(crate) fn scheme(&self) -> &'static str {
        match self.info.addr() {
            ConnectionAddr::TcpTls { .. } => "rediss",
            ConnectionAddr::Unix(_) => "redis+unix",
            _ => "redis",
        }
    }

    /// Returns a server at `address` with the same settings.
    fn at(&self, address: ConnectionAddr) -> Self {
        let mut server = self.clone();
        server.info = self.info.clone().set_addr(address);
        server
    }

    /// Returns a server at `endpoint` with the same settings.
    pub(crate) fn elsewhere(&self, endpoint: &Endpoint) -> Self {
        let Endpoint { host, port } = endpoint;
        let address = match self.info.addr() {
            ConnectionAddr::TcpTls {
                insecure,
                tls_params,
                ..
            } => ConnectionAddr::TcpTls {
                host: host.clone(),
                port: *port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host.clone(), *port),
        };
        self.at(address)
    }

    /// Returns the server's address, if it is not a Unix socket.
    pub(crate) fn endpoint(&self) -> Option<Endpoint> {
        let (ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }) =
            self.info.addr()
        else {
            return None;
        };
        Some(Endpoint {
            host: host.clone(),
            port: *port,
        })
    }

    /// Returns the server's address, as written in a URL.
    pub(crate) fn address(&self) -> String {
        match self.endpoint() {
            Some(Endpoint { host, port }) => authority(&host, port),
            None => self.info.addr().to_string(),
        }
    }

    /// Describes what an operator should check if the server is silent.
    pub(crate) fn suspicion(&self) -> &'static str {
        match self.info.addr() {
            // A server without TLS mistakes the handshake for an incomplete command, and waits for
            // the rest of the command.
            ConnectionAddr::TcpTls { .. } => "it is up and reachable, and speaks TLS on this port",
            _ => "it is up and reachable",
        }
    }

    pub(crate) fn readable(&self) -> Option<String> {
        readable(self.info.addr())
    }
}

/// Returns the host in `address` if other parties on the network can read the connection, because
/// it has no TLS and leads to another machine.
fn readable(address: &ConnectionAddr) -> Option<String> {
    let ConnectionAddr::Tcp(host, _) = address else {
        return None;
    };
    let here = match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    };
    (!here).then(|| host.clone())
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.address())?;
        match self.info.redis_settings().db() {
            0 => Ok(()),
            db => write!(f, "/{db}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_or_tls_connections_protect_a_password() {
        let tcp = |host: &str| readable(&ConnectionAddr::Tcp(host.to_owned(), 1)).is_some();
        for here in [
            "127.0.0.1",
            "127.8.8.8",
            "::1",
            "::ffff:127.0.0.1",
            "localhost",
        ] {
            assert!(!tcp(here), "{here}");
        }
        for there in ["10.0.0.1", "redis", "127.0.0.1.example.org", "::"] {
            assert!(tcp(there), "{there}");
        }
        assert_eq!(readable(&ConnectionAddr::Unix("/x".into())), None);
    }
}
