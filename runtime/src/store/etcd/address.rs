//! The address of an etcd cluster, parsed from its URL.

use std::fmt;
use std::time::Duration;

#[cfg(feature = "tls")]
use super::tls::MemberTls;
use crate::error::LockError;
use crate::store::Failure;
use crate::store::credentials::Provider;
use crate::store::session::members::{Access, Members};
use crate::store::tls::Tls;
use crate::store::url_options;

const FORM: &str =
    "etcd://user:password@host[:port],host[:port],…/prefix with special characters percent-encoded";

/// Default port of a member.
const PORT: u16 = 2379;

/// Default prefix of the keys of locks, if the URL has none.
const PREFIX: &str = "leasehold";

/// The members of a cluster, and the credentials for them. `Display` shows no credentials.
#[derive(Clone)]
pub(crate) struct Address {
    scheme: String,
    members: Members,
    /// The source of credentials that replaces those of the URL, if the pool has one.
    logins: Option<Provider>,
    /// TLS settings for `etcds://`. `None` for `etcd://`.
    #[cfg(feature = "tls")]
    tls: Option<MemberTls>,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        let (base, options) = url_options::split(url);
        if !options.rest().is_empty() {
            return Err(LockError::config(
                "the URL of `etcd://` and `etcds://` has no options after a `?` except \
                 `password_file`; write %3F for a `?` elsewhere",
            ));
        }
        let (scheme, rest) = base.split_once("://").ok_or_else(misread)?;
        let mut members = Members::parse(rest, PORT).ok_or_else(misread)?;
        if members.path.is_empty() {
            PREFIX.clone_into(&mut members.path);
        }
        Ok(Self {
            scheme: scheme.to_owned(),
            members,
            logins: None,
            #[cfg(feature = "tls")]
            tls: None,
        })
    }

    /// Returns this address with these certificates. Refuses them for `etcd://`.
    pub(crate) fn with_tls(self, tls: &Tls) -> Result<Self, LockError> {
        if !self.is_encrypted() {
            tls.refuse()?;
            return Ok(self);
        }
        Ok(Self {
            #[cfg(feature = "tls")]
            tls: Some(MemberTls::new(tls)?),
            ..self
        })
    }

    /// Returns the TLS settings of connections. `None` if connections are not encrypted.
    #[cfg(feature = "tls")]
    pub(super) fn tls(&self) -> Option<&MemberTls> {
        self.tls.as_ref()
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.scheme == "etcds"
    }

    /// Returns the number of members in the URL.
    pub(super) fn members(&self) -> usize {
        self.members.hosts.len()
    }

    /// Returns the member at index `at`, as `host:port`.
    pub(super) fn member(&self, at: usize) -> &str {
        self.members.hosts.get(at).map_or("", String::as_str)
    }

    /// Returns the URL for the API of the member at index `at`. It begins with `http` even
    /// for TLS if leasehold, and not tonic, makes the handshake.
    pub(super) fn uri(&self, at: usize) -> String {
        #[cfg(feature = "tls")]
        let by_tonic = self.tls.as_ref().is_none_or(MemberTls::is_of_tonic);
        #[cfg(not(feature = "tls"))]
        let by_tonic = true;
        let scheme = if self.is_encrypted() && by_tonic {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.member(at))
    }

    /// Returns the same address, with this source of credentials. Without a source, refuses a user
    /// that has no password.
    pub(crate) fn with_logins(self, logins: Option<&Provider>) -> Result<Self, LockError> {
        if logins.is_none() && self.members.lacks_password() {
            return Err(misread());
        }
        Ok(Self {
            logins: logins.cloned(),
            ..self
        })
    }

    /// Returns the user and the password for the next connection.
    pub(super) async fn access(&self, limit: Duration) -> Result<Option<Access>, Failure> {
        self.members.access(self.logins.as_ref(), limit).await
    }

    /// Returns the prefix of the keys of locks.
    pub(super) fn prefix(&self) -> &str {
        &self.members.path
    }

    /// Returns the first member on another machine, if connections are not encrypted. Other parties
    /// could then read the traffic to this member.
    pub(super) fn readable(&self) -> Option<&str> {
        let readable = self.members.readable();
        readable.filter(|_| !self.is_encrypted())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Members { hosts, path, .. } = &self.members;
        write!(f, "{}://{}/{path}", self.scheme, hosts.join(","))
    }
}

fn misread() -> LockError {
    LockError::config(format!("the lock store's URL is invalid; write {FORM}"))
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
            shown("etcd://u:hunter2@h/shop"),
            "etcd://h:2379/shop",
            "the default port"
        );
        assert_eq!(
            shown("etcd://h1:1,h2:2,[::1]:3"),
            "etcd://h1:1,h2:2,[::1]:3/leasehold"
        );
        assert_eq!(shown("etcd://[::1]/a/b/"), "etcd://[::1]:2379/a/b");
        let address = Address::parse("etcd://u%40x:p%3Aw@h").expect("it is well-formed");
        let user = ("u@x".to_owned(), Some("p:w".to_owned()));
        assert_eq!(address.members.user, Some(user));
        assert_eq!(address.uri(0), "http://h:2379");
        let address = Address::parse("etcds://h").expect("it is well-formed");
        assert_eq!(address.uri(0), "https://h:2379");
        assert_eq!(address.to_string(), "etcds://h:2379/leasehold");
    }

    #[test]
    fn refusals_suggest_a_url_and_hide_passwords() {
        for (url, expected) in [
            ("etcd://u:hunter2@h:port", "etcd://user"),
            ("etcd://u:hunter2@", "etcd://user"),
            ("etcd://u:hunter2@h,,i", "etcd://user"),
            ("etcd://u:hunter2%zz@h", "etcd://user"),
            ("etcd://u:hunter2@h/p?replicas=1", "no options"),
        ] {
            let text = refused(url);
            assert!(text.contains(expected), "{url}: {text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
        let alone = Address::parse("etcd://hunter2@h").expect("a user");
        let refused = alone.with_logins(None).err().expect("no password");
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
    }
}
