//! Where the cluster is, from its URL.

use std::fmt;
use std::net::IpAddr;

use crate::error::LockError;
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
    /// `host:port` of each member that the URL names.
    members: Vec<String>,
    user: Option<(String, String)>,
    prefix: String,
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
        let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(credentials(user).ok_or_else(misread)?), hosts),
            None => (None, authority),
        };
        let members = hosts.split(',').map(member).collect::<Option<Vec<_>>>();
        let prefix = decoded(prefix.trim_matches('/')).ok_or_else(misread)?;
        Ok(Self {
            members: members.ok_or_else(misread)?,
            user,
            prefix: if prefix.is_empty() {
                PREFIX.to_owned()
            } else {
                prefix
            },
        })
    }

    /// How many members the URL names.
    pub(super) fn members(&self) -> usize {
        self.members.len()
    }

    /// The member at `at`, as a person reads it.
    pub(super) fn member(&self, at: usize) -> &str {
        self.members.get(at).map_or("", String::as_str)
    }

    /// The URL of the member at `at` for its API.
    pub(super) fn uri(&self, at: usize) -> String {
        format!("http://{}", self.member(at))
    }

    pub(super) fn user(&self) -> Option<(&str, &str)> {
        let (name, password) = self.user.as_ref()?;
        Some((name, password))
    }

    /// Where the keys of locks begin.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The first member where what is sent can be read on the way: not on this machine.
    pub(super) fn readable(&self) -> Option<&str> {
        let mut members = self.members.iter().map(String::as_str);
        members.find(|member| {
            let host = member.rsplit_once(':').map_or(*member, |(host, _)| host);
            let plain = host.trim_start_matches('[').trim_end_matches(']');
            match plain.parse::<IpAddr>() {
                Ok(address) => !address.to_canonical().is_loopback(),
                Err(_) => !plain.eq_ignore_ascii_case("localhost"),
            }
        })
    }
}

/// `host:port`, with the default port if there is none.
fn member(text: &str) -> Option<String> {
    let ends_in_brackets = text.ends_with(']');
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !ends_in_brackets => (host, port.parse().ok()?),
        _ => (text, PORT),
    };
    let plain = host.starts_with('[') == host.ends_with(']');
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.[]".contains(c);
    let is_v6 = host.starts_with('[') && host.chars().all(|c| fits(c) || c == ':');
    let is_host = !host.is_empty() && plain && (is_v6 || host.chars().all(fits));
    is_host.then(|| format!("{host}:{port}"))
}

fn credentials(text: &str) -> Option<(String, String)> {
    let (name, password) = text.split_once(':')?;
    Some((decoded(name)?, decoded(password)?))
}

/// The text without its percent-encoding.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "etcd://{}/{}", self.members.join(","), self.prefix)
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

    #[test]
    fn only_this_machine_keeps_a_secret() {
        let readable = |url: &str| {
            let address = Address::parse(url).expect(url);
            address.readable().map(str::to_owned)
        };
        assert_eq!(readable("etcd://127.0.0.1:1,localhost,[::1]"), None);
        assert_eq!(
            readable("etcd://127.0.0.1,etcd.example.org"),
            Some("etcd.example.org:2379".to_owned())
        );
    }
}
