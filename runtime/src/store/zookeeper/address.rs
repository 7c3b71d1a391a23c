//! The address of an ensemble, parsed from its URL.

use std::fmt;
use std::time::Duration;

use super::names::{Names, is_path};
use crate::error::LockError;
use crate::store::Failure;
use crate::store::credentials::Provider;
use crate::store::session::members::{Access, Members};
use crate::store::url_options;

const FORM: &str = "zookeeper://user:password@host[:port],host[:port],…/chroot with special characters percent-encoded";

/// Default port of a server.
const PORT: u16 = 2181;

/// Default path of the directories of locks, if the URL has none.
const CHROOT: &str = "leasehold";

/// The servers of an ensemble, and the credentials. `Display` shows no credentials.
#[derive(Clone)]
pub(crate) struct Address {
    members: Members,
    /// The pool's source of credentials. If set, it replaces the credentials of the URL.
    logins: Option<Provider>,
    /// The ensemble's `tickTime`, if the URL specifies it.
    pub(super) tick: Option<Duration>,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        let (base, mut options) = url_options::split(url);
        let tick = options.take("tick").map(tick).transpose()?;
        options.finish(&["tick", "password_file"], &[])?;
        let (scheme, rest) = base.split_once("://").ok_or_else(misread)?;
        if scheme != "zookeeper" {
            return Err(LockError::config(
                "`zookeepers://` is not supported yet, because `zookeeper://` has no TLS; write \
                 `zookeeper://`, and keep the ensemble on a network that no other party can read",
            ));
        }
        let mut members = Members::parse(rest, PORT).ok_or_else(misread)?;
        if members.path.is_empty() {
            CHROOT.clone_into(&mut members.path);
        }
        if !is_path(&members.path) {
            return Err(LockError::config(
                "the chroot in the URL of `zookeeper://` is not a valid ZooKeeper path; choose \
                 names without control characters, other than `.`, `..` and `zookeeper`",
            ));
        }
        Ok(Self {
            members,
            logins: None,
            tick,
        })
    }

    /// Returns the servers in the URL, each as `host:port`.
    pub(super) fn servers(&self) -> &[String] {
        &self.members.hosts
    }

    /// Returns all servers as `host:port,host:port,…`.
    pub(super) fn hosts(&self) -> String {
        self.members.hosts.join(",")
    }

    /// Returns the same address, with this source of credentials. Without a source, fails if the
    /// URL has a user without a password.
    pub(crate) fn with_logins(self, logins: Option<&Provider>) -> Result<Self, LockError> {
        if logins.is_none() && self.members.lacks_password() {
            return Err(misread());
        }
        Ok(Self {
            logins: logins.cloned(),
            ..self
        })
    }

    /// Returns `user:password` for the next connection, in the form of ZooKeeper's authentication
    /// scheme `digest`. `None` if connections have no user.
    pub(super) async fn digest(&self, limit: Duration) -> Result<Option<String>, Failure> {
        let access = self.members.access(self.logins.as_ref(), limit).await?;
        Ok(access.map(|Access { user, password, .. }| format!("{user}:{password}")))
    }

    /// True if connections log in as a user.
    pub(super) fn has_user(&self) -> bool {
        self.logins.is_some() || self.members.user.is_some()
    }

    pub(super) fn names(&self) -> Names {
        Names::new(&self.members.path)
    }

    /// Returns the first server on another machine, if any. Others on the network can read the
    /// unencrypted traffic to this server.
    pub(super) fn readable(&self) -> Option<&str> {
        self.members.readable()
    }
}

fn misread() -> LockError {
    LockError::config(format!("the lock store's URL is invalid; write {FORM}"))
}

fn tick(text: &str) -> Result<Duration, LockError> {
    let tick = humantime::parse_duration(text).ok();
    tick.filter(|tick| !tick.is_zero()).ok_or_else(|| {
        LockError::config(
            "`tick` in the URL of `zookeeper://` is the `tickTime` of the ensemble; write a duration such as `tick=2s`",
        )
    })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zookeeper://{}/{}", self.hosts(), self.members.path)
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
            shown("zookeeper://u:hunter2@h/shop"),
            "zookeeper://h:2181/shop",
            "the default port"
        );
        assert_eq!(
            shown("zookeeper://h1:1,h2:2,[::1]:3"),
            "zookeeper://h1:1,h2:2,[::1]:3/leasehold"
        );
        assert_eq!(
            shown("zookeeper://[::1]/a/b/"),
            "zookeeper://[::1]:2181/a/b"
        );
        let address = Address::parse("zookeeper://u%40x:p%3Aw@h?tick=500ms");
        let address = address.expect("it is well-formed");
        let user = ("u@x".to_owned(), Some("p:w".to_owned()));
        assert_eq!(address.members.user, Some(user));
        assert_eq!(address.tick, Some(Duration::from_millis(500)));
    }

    #[test]
    fn refusals_suggest_a_url_and_hide_passwords() {
        for (url, expected) in [
            ("zookeeper://u:hunter2@h:port", "zookeeper://user"),
            ("zookeeper://u:hunter2@", "zookeeper://user"),
            ("zookeeper://u:hunter2@h,,i", "zookeeper://user"),
            ("zookeeper://u:hunter2%zz@h", "zookeeper://user"),
            ("zookeeper://u:hunter2@h/p?replicas=1", "`tick`"),
            ("zookeeper://u:hunter2@h/p?tick=0s", "`tickTime`"),
            ("zookeeper://u:hunter2@h/a//b", "not a valid ZooKeeper path"),
            (
                "zookeeper://u:hunter2@h/zookeeper/b",
                "not a valid ZooKeeper path",
            ),
            ("zookeepers://u:hunter2@h/p", "no TLS"),
        ] {
            let text = refused(url);
            assert!(text.contains(expected), "{url}: {text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}
