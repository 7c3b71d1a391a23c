//! URL schemes, and the store for each of them.

use super::backend::Target;
#[cfg(feature = "redis")]
use super::cluster;
#[cfg(feature = "etcd")]
use super::etcd;
use super::memory::backend::Memory;
#[cfg(feature = "postgres")]
use super::postgres;
#[cfg(feature = "redis")]
use super::redis;
#[cfg(feature = "redis")]
use super::redlock;
use super::url_options;
#[cfg(feature = "zookeeper")]
use super::zookeeper;
use crate::error::LockError;

/// The accepted forms of a URL, for error texts.
const KNOWN: &str = "`redis://host[:port][/db]`, `rediss://…`, `redis+unix:///path`, `redis-sentinel://host[:port],…/master`, `redis-cluster://host[:port],…`, `redlock://host:port,host:port,host:port`, `postgres://user@host[:port]/database`, `etcd://host[:port],…/prefix`, `etcds://…`, `zookeeper://host[:port],…/chroot` or `memory://`";

/// Defines `backend`, which parses a URL according to its scheme. Each line of the table has the
/// schemes of a backend, the backend's type, and the required feature.
macro_rules! backends {
    ($($schemes:pat => $backend:path, $feature:tt;)+) => {
        fn backend(scheme: &str, url: &str) -> Option<Result<Target, LockError>> {
            match scheme {
                $(
                    #[cfg(feature = $feature)]
                    $schemes => Some(<$backend>::parse(url).map(Target::new)),
                    #[cfg(not(feature = $feature))]
                    $schemes => {
                        let _ = url;
                        Some(Err(LockError::config(format!(
                            "`{scheme}://` needs the feature `{}` of the crate `leasehold`, which is off",
                            $feature,
                        ))))
                    }
                )+
                _ => None,
            }
        }
    };
}

backends! {
    "redis" | "rediss" | "redis+unix" | "redis-sentinel" | "rediss-sentinel" => redis::backend::Redis, "redis";
    "redis-cluster" | "rediss-cluster" => cluster::address::Address, "redis";
    "redlock" => redlock::address::Address, "redis";
    "postgres" | "postgresql" => postgres::address::Address, "postgres";
    "etcd" | "etcds" => etcd::address::Address, "etcd";
    "zookeeper" | "zookeepers" => zookeeper::address::Address, "zookeeper";
}

/// The schemes that need the feature `tls`.
const ENCRYPTED: [&str; 4] = ["rediss", "rediss-sentinel", "rediss-cluster", "etcds"];

impl Target {
    /// Parses `url`. No error text contains the URL, because it may contain a password.
    ///
    /// White space around the URL is ignored, because a URL from a file often ends with a line
    /// break.
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        let url = url.trim();
        let parts = url.split_once("://");
        let Some((scheme, rest)) = parts.filter(|(scheme, _)| is_scheme(scheme)) else {
            return Err(LockError::config(if url.is_empty() {
                format!("the pool has no lock store; set its URL: {KNOWN}")
            } else {
                format!("the lock store's URL does not begin with `scheme://`; write {KNOWN}")
            }));
        };
        let (url, password_file) = url_options::password_file(url)?;
        let rest = url.split_once("://").map_or(rest, |(_, rest)| rest);
        if scheme == "memory" {
            let memory = Memory::parse(rest).map(Self::new)?;
            return Ok(memory.with_password_file(password_file));
        }
        if cfg!(not(feature = "tls")) && ENCRYPTED.contains(&scheme) {
            return Err(needs_tls(scheme));
        }
        let target = backend(scheme, &url).unwrap_or_else(|| {
            Err(LockError::config(format!(
                "the lock store's URL has the unknown scheme `{scheme}`; write {KNOWN}"
            )))
        });
        Ok(target?.with_password_file(password_file))
    }
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

/// True if all characters may occur in a scheme (RFC 3986, section 3.1). Error texts show the
/// scheme, so credentials before it must fail this check. They do, because they contain `:` or `@`.
fn is_scheme(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        match Target::parse(url) {
            Ok(target) => panic!("{} was accepted", &*target),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn refusals_suggest_a_url_and_hide_passwords() {
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

    /// Fails if a URL with a line break at its end, as read from a file, is refused. Also fails if
    /// an IPv6 address is shown without brackets, so that its port cannot be recognized.
    #[test]
    fn urls_are_trimmed_and_ipv6_addresses_bracketed() {
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

    /// Fails if the URL of a Unix socket is accepted with credentials before its path. Logs would
    /// show the credentials as a part of the path.
    #[test]
    #[cfg(feature = "redis")]
    fn credentials_of_a_unix_socket_are_not_in_its_path() {
        let text = refusal("redis+unix://u:hunter2@/run/redis.sock");
        assert!(text.contains("?user=…&pass=…") && !text.contains("hunter2"));
        assert!(Target::parse("redis+unix:///run/a%40b.sock?user=u&pass=p@q").is_ok());
    }

    /// Fails if the refusal of a URL with TLS does not name the required feature. Also fails if
    /// such a URL is refused although the feature is on.
    #[test]
    fn tls_urls_need_their_feature() {
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
    fn a_memory_url_may_have_a_name() {
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
