//! Which store a URL names.

#[cfg(feature = "redis")]
use super::cluster;
#[cfg(feature = "etcd")]
use super::etcd;
#[cfg(feature = "postgres")]
use super::postgres;
#[cfg(feature = "redis")]
use super::redis::master_address::MasterAddress;
#[cfg(feature = "redis")]
use super::redlock;
use super::target::Target;
#[cfg(feature = "zookeeper")]
use super::zookeeper;
use crate::error::LockError;

/// The forms of URL, for error texts.
const KNOWN: &str = "`redis://host[:port][/db]`, `rediss://…`, `redis+unix:///path`, `redis-sentinel://host[:port],…/master`, `redis-cluster://host[:port],…`, `redlock://host:port,host:port,host:port`, `postgres://user@host[:port]/database`, `etcd://host[:port],…/prefix`, `etcds://…`, `zookeeper://host[:port],…/chroot` or `memory://`";

impl Target {
    /// The store that `url` names. No error text contains the URL, because it may hold a password.
    ///
    /// White space around the URL is left out: a URL that is read from a file often ends with a line.
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        let url = url.trim();
        let parts = url.split_once("://");
        let Some((scheme, rest)) = parts.filter(|(scheme, _)| is_scheme(scheme)) else {
            return Err(LockError::config(if url.is_empty() {
                format!("the pool has no lock store; give it a URL: {KNOWN}")
            } else {
                format!("the lock store's URL does not begin with `scheme://`; write {KNOWN}")
            }));
        };
        match scheme {
            "memory" => memory_name(rest).map(Self::Memory),
            "redis" | "rediss" | "redis+unix" | "redis-sentinel" | "rediss-sentinel" => {
                Self::redis(scheme, url)
            }
            "redis-cluster" | "rediss-cluster" => Self::cluster(scheme, url),
            "redlock" => Self::redlock(url),
            "postgres" | "postgresql" => Self::postgres(url),
            "etcd" | "etcds" => Self::etcd(scheme, url),
            "zookeeper" | "zookeepers" => Self::zookeeper(url),
            _ => Err(LockError::config(format!(
                "the lock store's URL has the unknown scheme `{scheme}`; write {KNOWN}"
            ))),
        }
    }

    #[cfg(feature = "redis")]
    fn redis(scheme: &str, url: &str) -> Result<Self, LockError> {
        refuse_without_tls(scheme)?;
        let (master, replicas) = MasterAddress::parse(url)?;
        Ok(Self::Redis(Box::new(master), replicas))
    }

    #[cfg(feature = "redis")]
    fn cluster(scheme: &str, url: &str) -> Result<Self, LockError> {
        refuse_without_tls(scheme)?;
        cluster::address::Address::parse(url).map(|address| Self::Cluster(Box::new(address)))
    }

    #[cfg(not(feature = "redis"))]
    fn cluster(scheme: &str, url: &str) -> Result<Self, LockError> {
        Self::redis(scheme, url)
    }

    #[cfg(feature = "redis")]
    fn redlock(url: &str) -> Result<Self, LockError> {
        redlock::address::Address::parse(url).map(|address| Self::Redlock(Box::new(address)))
    }

    #[cfg(not(feature = "redis"))]
    fn redlock(url: &str) -> Result<Self, LockError> {
        Self::redis("redlock", url)
    }

    #[cfg(not(feature = "redis"))]
    fn redis(scheme: &str, _url: &str) -> Result<Self, LockError> {
        refuse_without_tls(scheme)?;
        Err(LockError::config(format!(
            "`{scheme}://` needs the feature `redis` of the crate `leasehold`, which is off"
        )))
    }

    #[cfg(feature = "postgres")]
    fn postgres(url: &str) -> Result<Self, LockError> {
        postgres::address::Address::parse(url).map(|address| Self::Postgres(Box::new(address)))
    }

    #[cfg(not(feature = "postgres"))]
    fn postgres(_url: &str) -> Result<Self, LockError> {
        Err(LockError::config(
            "`postgres://` needs the feature `postgres` of the crate `leasehold`, which is off",
        ))
    }

    #[cfg(feature = "etcd")]
    fn etcd(scheme: &str, url: &str) -> Result<Self, LockError> {
        refuse_without_tls(scheme)?;
        etcd::address::Address::parse(url).map(|address| Self::Etcd(Box::new(address)))
    }

    #[cfg(not(feature = "etcd"))]
    fn etcd(scheme: &str, _url: &str) -> Result<Self, LockError> {
        refuse_without_tls(scheme)?;
        Err(LockError::config(
            "`etcd://` needs the feature `etcd` of the crate `leasehold`, which is off",
        ))
    }

    #[cfg(feature = "zookeeper")]
    fn zookeeper(url: &str) -> Result<Self, LockError> {
        zookeeper::address::Address::parse(url).map(|address| Self::ZooKeeper(Box::new(address)))
    }

    #[cfg(not(feature = "zookeeper"))]
    fn zookeeper(_url: &str) -> Result<Self, LockError> {
        Err(LockError::config(
            "`zookeeper://` needs the feature `zookeeper` of the crate `leasehold`, which is off",
        ))
    }
}

/// The name in `memory://name`; none in `memory://`. A trailing slash means nothing.
fn memory_name(rest: &str) -> Result<Option<String>, LockError> {
    let name = rest.strip_suffix('/').unwrap_or(rest);
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.chars().all(fits) {
        return Err(LockError::config(
            "the name in `memory://name` is of ASCII letters, digits, `-`, `_` and `.`, with nothing behind it; \
             `memory://` without a name is private to its pool",
        ));
    }
    Ok((!name.is_empty()).then(|| name.to_owned()))
}

fn refuse_without_tls(scheme: &str) -> Result<(), LockError> {
    if cfg!(feature = "tls") || !(scheme.starts_with("rediss") || scheme == "etcds") {
        return Ok(());
    }
    Err(needs_tls(scheme))
}

pub(super) fn needs_tls(scheme: &str) -> LockError {
    LockError::config(format!(
        "`{scheme}://` needs the feature `tls` of the crate `leasehold`, which is off; in `Cargo.toml` write \
         `leasehold = {{ version = \"{}\", features = [\"tls\"] }}`",
        concat!(
            env!("CARGO_PKG_VERSION_MAJOR"),
            ".",
            env!("CARGO_PKG_VERSION_MINOR")
        )
    ))
}

/// True for the characters of a scheme (RFC 3986, section 3.1). Credentials before it are none.
fn is_scheme(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        match Target::parse(url) {
            Ok(target) => panic!("{target} was accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn refusals_say_what_to_write_and_keep_passwords() {
        for url in [
            "",
            "localhost:6379",
            "http://u:hunter2@h/",
            "redis://u:hunter2@h:port/",
            "u:hunter2@redis://h/",
        ] {
            let text = refusal(url);
            assert!(text.contains("redis://"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    /// Fails if a URL from a file with a line's end names no store, or an IPv6 address is shown so
    /// that its port cannot be told from it.
    #[test]
    fn white_space_is_left_out_and_addresses_are_shown_in_brackets() {
        for url in [
            #[cfg(feature = "redis")]
            "redis://[::1]:7/2",
            #[cfg(feature = "redis")]
            "redis-sentinel://[::1]:7/main",
            #[cfg(feature = "redis")]
            "redis-cluster://[::1]:7",
            #[cfg(feature = "redis")]
            "redlock://[::1]:7,[::1]:8,[::1]:9",
            #[cfg(feature = "postgres")]
            "postgres://[::1]:7/locks",
            #[cfg(feature = "etcd")]
            "etcd://[::1]:7",
            #[cfg(feature = "zookeeper")]
            "zookeeper://[::1]:7",
            "memory://one",
        ] {
            let shown = Target::parse(&format!(" {url}\r\n")).unwrap().to_string();
            assert!(shown.starts_with(url), "{url}: {shown}");
        }
    }

    /// Fails if a log shows credentials as a part of a path.
    #[test]
    #[cfg(feature = "redis")]
    fn a_unix_socket_has_its_credentials_behind_the_path() {
        let text = refusal("redis+unix://u:hunter2@/run/redis.sock");
        assert!(text.contains("?user=…&pass=…") && !text.contains("hunter2"));
        assert!(Target::parse("redis+unix:///run/a%40b.sock?user=u&pass=p@q").is_ok());
    }

    /// Fails if a URL with TLS is refused without the name of the feature that it needs, or is
    /// refused where that feature is on.
    #[test]
    fn tls_is_a_feature() {
        for (scheme, rest) in [
            ("rediss", "h/"),
            ("rediss-sentinel", "h/master"),
            ("rediss-cluster", "h"),
            #[cfg(feature = "etcd")]
            ("etcds", "h"),
        ] {
            let text = needs_tls(scheme).to_string();
            assert!(text.contains(&format!("`{scheme}://`")), "{text}");
            assert!(text.contains("feature `tls`"), "{text}");
            assert!(text.contains("features = [\"tls\"]"), "{text}");
            let refusal = Target::parse(&format!("{scheme}://{rest}")).err();
            let expected = cfg!(not(feature = "tls")).then(|| needs_tls(scheme));
            assert_eq!(refusal, expected);
        }
    }

    #[test]
    fn memory_has_a_name_or_none() {
        for (url, shown) in [
            ("memory://", "memory://"),
            ("memory:///", "memory://"),
            ("memory://one/", "memory://one"),
            ("memory://Two.2_b-c", "memory://Two.2_b-c"),
        ] {
            assert_eq!(Target::parse(url).unwrap().to_string(), shown);
        }
        for url in [
            "memory://one//",
            "memory://one/2",
            "memory://one?replicas=1",
            "memory://u:hunter2@h:6379",
            "memory://my shop",
            "memory://café",
        ] {
            let text = refusal(url);
            assert!(text.contains("`memory://name`"), "{url}: {text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}
