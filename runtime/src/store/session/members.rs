//! The members of a cluster, as a URL names them: `user:password@host[:port],…/path`.

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::digits::percent_decoded;
use crate::store::Failure;
use crate::store::credentials::Provider;

/// The user and the password of one connection.
pub(crate) struct Access {
    pub(crate) user: String,
    pub(crate) password: String,
    /// Time at which the connection needs new credentials.
    pub(crate) renew_at: Option<Instant>,
    /// True if the next login may get other credentials. A refused login is then retried.
    pub(crate) changes: bool,
}

/// A cluster's members, the credentials, and the path after the members.
#[derive(Clone)]
pub(crate) struct Members {
    /// `host:port` of each member.
    pub(crate) hosts: Vec<String>,
    /// The user, and the password if there is one.
    pub(crate) user: Option<(String, Option<String>)>,
    /// Path after the members, without leading and trailing slashes.
    pub(crate) path: String,
}

impl Members {
    /// Parses the part of a URL after `scheme://`. Returns `None` if it is malformed.
    pub(crate) fn parse(text: &str, default_port: u16) -> Option<Self> {
        let (authority, path) = text.split_once('/').unwrap_or((text, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(credentials(user)?), hosts),
            None => (None, authority),
        };
        let hosts = hosts.split(',').map(|host| member(host, default_port));
        // If the path contains an `@`, the password probably contains a `/`. Such a URL is refused,
        // because messages show the path.
        if path.contains('@') {
            return None;
        }
        Some(Self {
            hosts: hosts.collect::<Option<_>>()?,
            user,
            path: percent_decoded(path.trim_matches('/'))?,
        })
    }

    /// Returns the user and the password for the next connection: those of `logins` if there is
    /// such a source, otherwise those of the URL. If `logins` returns only a password, the URL's
    /// user applies.
    pub(crate) async fn access(
        &self,
        logins: Option<&Provider>,
        limit: Duration,
    ) -> Result<Option<Access>, Failure> {
        let user = self.user.as_ref();
        let Some(logins) = logins else {
            return Ok(user.map(|(user, password)| Access {
                user: user.clone(),
                password: password.clone().unwrap_or_default(),
                renew_at: None,
                changes: false,
            }));
        };
        let login = logins.next(limit).await?;
        let of_url = || user.map(|(user, _)| user.clone());
        let user = login.credentials.user().map(str::to_owned).or_else(of_url);
        Ok(Some(Access {
            user: user.unwrap_or_default(),
            password: login.credentials.password().to_owned(),
            renew_at: login.renew_at,
            changes: true,
        }))
    }

    /// True if the URL names a user without a password. Another source must then supply the
    /// password.
    pub(crate) fn lacks_password(&self) -> bool {
        matches!(self.user, Some((_, None)))
    }

    /// Returns the first member on another machine. Others on the network can read unencrypted
    /// traffic to this member.
    pub(crate) fn readable(&self) -> Option<&str> {
        let mut hosts = self.hosts.iter().map(String::as_str);
        hosts.find(|member| {
            let host = member.rsplit_once(':').map_or(*member, |(host, _)| host);
            let plain = host.trim_start_matches('[').trim_end_matches(']');
            match plain.parse::<IpAddr>() {
                Ok(address) => !address.to_canonical().is_loopback(),
                Err(_) => !plain.eq_ignore_ascii_case("localhost"),
            }
        })
    }
}

/// Returns `host:port`, with the default port if `text` has none. Returns `None` if `text` is
/// malformed.
fn member(text: &str, default_port: u16) -> Option<String> {
    let ends_in_brackets = text.ends_with(']');
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !ends_in_brackets => (host, port.parse().ok()?),
        _ => (text, default_port),
    };
    let plain = host.starts_with('[') == host.ends_with(']');
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.[]".contains(c);
    let is_v6 = host.starts_with('[') && host.chars().all(|c| fits(c) || c == ':');
    let is_host = !host.is_empty() && plain && (is_v6 || host.chars().all(fits));
    is_host.then(|| format!("{host}:{port}"))
}

fn credentials(text: &str) -> Option<(String, Option<String>)> {
    let Some((name, password)) = text.split_once(':') else {
        return Some((percent_decoded(text)?, None));
    };
    Some((percent_decoded(name)?, Some(percent_decoded(password)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_url_is_read() {
        let members = Members::parse("u%40x:p%3Aw@h1,h2:7,[::1]/a/b/", 5).expect("well-formed");
        assert_eq!(members.hosts, ["h1:5", "h2:7", "[::1]:5"]);
        assert_eq!(
            members.user,
            Some(("u@x".to_owned(), Some("p:w".to_owned())))
        );
        assert_eq!(members.path, "a/b");
        for wrong in ["", "h,,i", "u:p@", "h:port", "u:%zz@h", "[::1", "u:1/p@h"] {
            assert!(Members::parse(wrong, 5).is_none(), "{wrong}");
        }
    }

    #[test]
    fn only_local_connections_protect_a_password() {
        let readable = |text: &str| {
            let members = Members::parse(text, 5).expect(text);
            members.readable().map(str::to_owned)
        };
        assert_eq!(readable("127.0.0.1:1,localhost,[::1]"), None);
        assert_eq!(
            readable("127.0.0.1,store.example.org"),
            Some("store.example.org:5".to_owned())
        );
    }
}
