//! Which URLs are accepted, and what the others are told.

use super::target::{Target, needs_tls};

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
    ] {
        let text = refusal(url);
        assert!(text.contains("redis://"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
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
