//! Where the cluster is, from its URL.

use std::fmt;

use crate::error::LockError;
use crate::store::session::members::Members;
use crate::store::url_options;

const FORM: &str =
    "etcd://user:password@host[:port],host[:port],…/prefix with special characters percent-encoded";

/// The port for clients.
const PORT: u16 = 2379;

/// Where the keys of locks begin, unless the URL says otherwise.
const PREFIX: &str = "leasehold";

/// A cluster's members, and what to introduce oneself with. `Display` shows no credentials.
#[derive(Clone)]
pub(crate) struct Address {
    members: Members,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        let misread = || {
            LockError::config(format!(
                "the lock store's URL is not understood; write {FORM}"
            ))
        };
        let (base, options) = url_options::split(url);
        if !options.rest().is_empty() {
            return Err(LockError::config(
                "the URL of `etcd://` has no options behind a `?`; a `?` elsewhere is written %3F",
            ));
        }
        let (scheme, rest) = base.split_once("://").ok_or_else(misread)?;
        if scheme != "etcd" {
            return Err(LockError::config(
                "`etcds://` is not possible yet, because `etcd://` has no TLS; write `etcd://`, and keep the cluster on a network that no other party can read",
            ));
        }
        let mut members = Members::parse(rest, PORT).ok_or_else(misread)?;
        if members.path.is_empty() {
            PREFIX.clone_into(&mut members.path);
        }
        Ok(Self { members })
    }

    /// How many members the URL names.
    pub(super) fn members(&self) -> usize {
        self.members.hosts.len()
    }

    /// The member at `at`, as a person reads it.
    pub(super) fn member(&self, at: usize) -> &str {
        self.members.hosts.get(at).map_or("", String::as_str)
    }

    /// The URL of the member at `at` for its API.
    pub(super) fn uri(&self, at: usize) -> String {
        format!("http://{}", self.member(at))
    }

    pub(super) fn user(&self) -> Option<(&str, &str)> {
        let (name, password) = self.members.user.as_ref()?;
        Some((name, password))
    }

    /// Where the keys of locks begin.
    pub(super) fn prefix(&self) -> &str {
        &self.members.path
    }

    /// The first member where what is sent can be read on the way: not on this machine.
    pub(super) fn readable(&self) -> Option<&str> {
        self.members.readable()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Members { hosts, path, .. } = &self.members;
        write!(f, "etcd://{}/{path}", hosts.join(","))
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
        assert_eq!(address.user(), Some(("u@x", "p:w")));
        assert_eq!(address.uri(0), "http://h:2379");
    }

    #[test]
    fn refusals_say_what_to_write_and_keep_passwords() {
        for (url, says) in [
            ("etcd://u:hunter2@h:port", "etcd://user"),
            ("etcd://u:hunter2@", "etcd://user"),
            ("etcd://u:hunter2@h,,i", "etcd://user"),
            ("etcd://hunter2@h", "etcd://user"),
            ("etcd://u:hunter2%zz@h", "etcd://user"),
            ("etcd://u:hunter2@h/p?replicas=1", "no options"),
            ("etcds://u:hunter2@h/p", "no TLS"),
        ] {
            let text = refused(url);
            assert!(text.contains(says), "{url}: {text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}
