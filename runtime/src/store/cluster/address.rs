//! The URL of a cluster: `redis-cluster://[user:password@]host[:port],…[?replicas=…]`, or
//! `rediss-cluster://` for TLS.

use std::fmt;

use crate::error::LockError;
use crate::replicas::Replicas;
use crate::store::credentials::Provider;
use crate::store::redis::wire::server::Server;
use crate::store::tls::Tls;
use crate::store::url_options;

/// The nodes in a cluster's URL. A client asks them for all nodes of the cluster. `Display` shows
/// no credentials.
#[derive(Clone)]
pub(crate) struct Address {
    /// A server whose credentials and TLS settings apply to all nodes.
    pub(super) like: Server,
    pub(super) seeds: Vec<Server>,
    pub(crate) replicas: Option<Replicas>,
}

impl Address {
    /// Parses `url`. No error text contains the URL, because it may contain a password.
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        let (base, mut options) = url_options::split(url);
        let replicas = options.take("replicas").map(str::parse).transpose()?;
        options.finish(&["replicas", "password_file"], &[])?;
        let (scheme, rest) = base.split_once("://").unwrap_or(("", base));
        let scheme = scheme.trim_end_matches("-cluster");
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        if !database.is_empty() {
            return Err(LockError::config(
                "a cluster has only the database 0; leave out the part after the `/` of the URL, \
                 or write `%2F` for a `/` in the password",
            ));
        }
        let (credentials, hosts) = match authority.rsplit_once('@') {
            Some((credentials, hosts)) => (format!("{credentials}@"), hosts),
            None => (String::new(), authority),
        };
        let seed = |host: &str| {
            let node = format!("{scheme}://{credentials}{host}/");
            let parsed = Server::parse(&node, &options).map_err(|_| misread());
            parsed.and_then(|seed| {
                if host.is_empty() {
                    Err(misread())
                } else {
                    Ok(seed)
                }
            })
        };
        let seeds: Result<Vec<_>, _> = hosts.split(',').map(seed).collect();
        let seeds = seeds?;
        Ok(Self {
            like: seeds.first().cloned().ok_or_else(misread)?,
            seeds,
            replicas,
        })
    }

    /// Returns the same address with these certificates.
    pub(crate) fn with_tls(self, tls: &Tls) -> Result<Self, LockError> {
        let seeds: Result<Vec<_>, _> = self
            .seeds
            .into_iter()
            .map(|seed| seed.with_tls(tls))
            .collect();
        Ok(Self {
            like: self.like.with_tls(tls)?,
            seeds: seeds?,
            ..self
        })
    }

    /// Returns the same address, with this source of credentials.
    pub(crate) fn with_logins(self, logins: Option<&Provider>) -> Self {
        let seeds = self.seeds.into_iter();
        Self {
            like: self.like.with_logins(logins),
            seeds: seeds.map(|seed| seed.with_logins(logins)).collect(),
            ..self
        }
    }
}

fn misread() -> LockError {
    LockError::config(
        "the lock store's URL is invalid; write redis-cluster://[user:password@]host[:port],… with \
         special characters percent-encoded; write the credentials once, because all nodes use the \
         same",
    )
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, seed) in self.seeds.iter().enumerate() {
            let address = seed.address();
            match number {
                0 => write!(f, "{}-cluster://{address}", seed.scheme())?,
                _ => write!(f, ",{address}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_share_the_credentials() {
        let parsed =
            Address::parse("redis-cluster://u:hunter%402@a,b:1,[::1]:2/?replicas=1").unwrap();
        assert_eq!(parsed.to_string(), "redis-cluster://a:6379,b:1,[::1]:2");
        assert_eq!(parsed.seeds.len(), 3);
        assert_eq!(parsed.replicas, Some(Replicas::AtLeast(1)));
    }

    #[test]
    fn refusals_suggest_a_url_and_hide_passwords() {
        for (url, expected) in [
            ("redis-cluster://", "host[:port]"),
            ("redis-cluster://u:hunter2@", "host[:port]"),
            ("redis-cluster://u:hunter2@a,,b", "host[:port]"),
            ("redis-cluster://u:hunter2@a:port", "host[:port]"),
            (
                "redis-cluster://u:hunter2@a,v:hunter2@b:port",
                "credentials once",
            ),
            ("redis-cluster://u:hunter2@a/1", "database 0"),
            ("redis-cluster://u:hunter2@a/?db=1", "`replicas`"),
            ("redis-cluster://u:p?hunter2@a", "%3F"),
            ("redis-cluster://u:hunter2@a?replicas=x", "replicas"),
        ] {
            let Err(error) = Address::parse(url) else {
                panic!("{url} was accepted");
            };
            let text = error.to_string();
            assert!(text.contains(expected), "{url}: {text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}
