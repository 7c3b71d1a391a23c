//! The URL of a quorum: `redlock://[user:password@]host[:port],…[/db][?max_ttl=…&node_timeout=…]`.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::core::Settings;
use super::question::NodeSet;
use crate::base::lease_terms::{MAX_TTL, MIN_TTL};
use crate::error::LockError;
use crate::store::redis::master_address::MasterAddress;

const FORM: &str = "redlock://host:port,host:port,host:port";

/// Default of the option `max_ttl`: the longest ttl that any process uses on the quorum. A
/// restarted node does not vote for at least `max_ttl`.
const DEFAULT_MAX_TTL: Duration = Duration::from_secs(10);
const DEFAULT_NODE_TIMEOUT: Duration = Duration::from_millis(50);
const NODE_TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);

/// The nodes of a quorum. `Display` shows no credentials.
#[derive(Clone)]
pub(crate) struct Address {
    pub(super) nodes: Vec<MasterAddress>,
    pub(super) settings: Settings,
}

impl Address {
    /// Parses `url`. No error text contains the URL, because it may contain a password.
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        let rest = url.strip_prefix("redlock://").unwrap_or(url);
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, db) = rest.split_once('/').unwrap_or((rest, ""));
        // If a password contains a `?`, the text after the `?` looks like options. So the options
        // are parsed first: the error about unknown options explains how to write such a password.
        let settings = settings(options)?;
        let nodes = nodes(hosts, db)?;
        let address = Self { nodes, settings };
        address.check()?;
        Ok(address)
    }

    fn check(&self) -> Result<(), LockError> {
        let names = self.names();
        let count = names.len();
        if count < 3 {
            return Err(LockError::config(format!(
                "`redlock://` needs at least 3 nodes, but its URL has {count}; write {FORM}, or \
                 use `redis://` for a single server"
            )));
        }
        if count > NodeSet::MOST {
            return Err(LockError::config(format!(
                "`redlock://` takes at most {} nodes; 3 or 5 are usual",
                NodeSet::MOST
            )));
        }
        let twice = (1..count).find(|at| names[..*at].contains(&names[*at]));
        match twice {
            Some(at) => Err(LockError::config(format!(
                "{} is in the URL twice; the nodes of `redlock://` are independent servers, so \
                 name each once",
                names[at]
            ))),
            None => Ok(()),
        }
    }

    /// Returns the names of the nodes, for errors and logs.
    pub(super) fn names(&self) -> Vec<String> {
        self.nodes.iter().map(ToString::to_string).collect()
    }
}

fn nodes(hosts: &str, db: &str) -> Result<Vec<MasterAddress>, LockError> {
    let shared = hosts.split(',').next().and_then(credentials);
    // A comma always separates nodes, even if the user meant it as a part of the password. Without
    // this check, a part of such a password would become a node's name, and messages show the
    // names.
    if shared.is_none() && hosts.contains('@') {
        return Err(LockError::config(
            "the first node of the `redlock://` URL has no credentials, but a later one has some; \
             write the credentials before the first node, with a `,` in them as %2C",
        ));
    }
    let node = |host: &str| {
        if host.is_empty() {
            return Err(LockError::config(format!(
                "a node of the `redlock://` URL is empty; write {FORM}"
            )));
        }
        let parsed = match (credentials(host), shared) {
            (None, Some(shared)) => MasterAddress::parse(&format!("redis://{shared}@{host}/{db}")),
            _ => MasterAddress::parse(&format!("redis://{host}/{db}")),
        };
        let parsed = parsed.map(|(address, _)| address);
        parsed.map_err(|_| {
            LockError::config(
                "the `redlock://` URL is invalid; write \
                 redlock://[user:password@]host[:port],…[/db] with special characters \
                 percent-encoded",
            )
        })
    };
    hosts.split(',').map(node).collect()
}

fn credentials(host: &str) -> Option<&str> {
    host.rsplit_once('@').map(|(credentials, _)| credentials)
}

fn settings(options: &str) -> Result<Settings, LockError> {
    let mut settings = Settings {
        node_timeout: DEFAULT_NODE_TIMEOUT,
        max_ttl: DEFAULT_MAX_TTL,
    };
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name {
            "max_ttl" => settings.max_ttl = duration(name, value, MIN_TTL..=MAX_TTL)?,
            "node_timeout" => settings.node_timeout = duration(name, value, NODE_TIMEOUTS)?,
            _ => {
                return Err(LockError::config(
                    "the `redlock://` URL has an unknown option after its `?`; it can have \
                     `max_ttl`, `node_timeout` and `password_file`; write %3F for a `?` elsewhere",
                ));
            }
        }
    }
    Ok(settings)
}

fn duration(
    name: &str,
    value: &str,
    bounds: RangeInclusive<Duration>,
) -> Result<Duration, LockError> {
    let parsed = humantime::parse_duration(value).ok();
    parsed.filter(|span| bounds.contains(span)).ok_or_else(|| {
        LockError::config(format!(
            "the option `{name}` of the `redlock://` URL must be a duration from {} to {}, such as \
             `{name}={}`",
            crate::error::millis(*bounds.start()),
            crate::error::millis(*bounds.end()),
            if name == "max_ttl" { "30s" } else { "50ms" },
        ))
    })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("redlock://")?;
        for (number, name) in self.names().iter().enumerate() {
            let separator = if number == 0 { "" } else { "," };
            write!(f, "{separator}{}", name.trim_start_matches("redis://"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        match Address::parse(url) {
            Ok(address) => panic!("{address} was accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn nodes_share_the_credentials_and_the_database() {
        let address = Address::parse("redlock://u:hunter2@a:1,b:2,v:other@c:3/4").unwrap();
        assert_eq!(address.to_string(), "redlock://a:1/4,b:2/4,c:3/4");
        assert_eq!(
            Address::parse("redlock://a,b,c").unwrap().to_string(),
            "redlock://a:6379,b:6379,c:6379"
        );
    }

    #[test]
    fn options_are_parsed_as_durations() {
        let settings = |url| Address::parse(url).unwrap().settings;
        let usual = settings("redlock://a,b,c/");
        assert_eq!(usual.max_ttl, DEFAULT_MAX_TTL);
        assert_eq!(usual.node_timeout, DEFAULT_NODE_TIMEOUT);
        let own = settings("redlock://a,b,c?max_ttl=1m&node_timeout=120ms");
        assert_eq!(own.max_ttl, Duration::from_secs(60));
        assert_eq!(own.node_timeout, Duration::from_millis(120));
    }

    #[test]
    fn refusals_suggest_a_url_and_hide_passwords() {
        for (url, expected) in [
            ("redlock://u:hunter2@a", "at least 3 nodes"),
            ("redlock://u:hunter2@a,b", "at least 3 nodes"),
            ("redlock://u:hunter2@a,,c", "is empty"),
            ("redlock://u:1,hunter2,3@c", "%2C"),
            ("redlock://u:hunter2@a:1,b:1,a:1", "twice"),
            ("redlock://u:hunter2@a,b,c:port", "is invalid"),
            ("redlock://u:hunter2@a,b,c?max_ttl=5", "max_ttl=30s"),
            ("redlock://u:hunter2@a,b,c?max_ttl=25h", "max_ttl=30s"),
            (
                "redlock://u:hunter2@a,b,c?node_timeout=",
                "node_timeout=50ms",
            ),
            ("redlock://u:p?hunter2@a,b,c", "%3F"),
        ] {
            let text = refusal(url);
            assert!(text.contains(expected), "{url}: {text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}
