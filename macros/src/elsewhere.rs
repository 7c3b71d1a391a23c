//! Names that other lock libraries use for the options of this attribute, and for features that
//! need no option here. The error for such a name suggests what to write instead.

/// The most likely meaning of an unknown name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// An option of this attribute.
    Option(&'static str),
    /// Several options, and advice on the choice between them. The name has different meanings in
    /// different libraries.
    Options(&'static [&'static str], &'static str),
    /// Advice on what to do instead, because no option has this meaning.
    Advice(&'static str),
}

/// The attribute's options, each with its names in other libraries, in lower case and without `_`.
const OPTIONS: [(&str, &[&str]); 15] = [
    (
        "key",
        &[
            "keys", "name", "id", "resource", "lockname", "lockkey", "lockid", "mutex",
        ],
    ),
    (
        "ttl",
        &[
            "lease",
            "leasetime",
            "leaseduration",
            "expire",
            "expires",
            "expiry",
            "expiresin",
            "expireafter",
            "expiration",
            "duration",
            "px",
            "ex",
            "validity",
            "lifetime",
            "maxage",
            "lockttl",
            "lockatmostfor",
            "lockatmost",
        ],
    ),
    (
        "wait",
        &[
            "waittime",
            "waitfor",
            "waittimeout",
            "maxwait",
            "acquiretimeout",
            "blockingtimeout",
            "blocking",
            "block",
            "retry",
            "retries",
            "retrycount",
            "retrydelay",
            "trylock",
            "acquire",
        ],
    ),
    (
        "watchdog",
        &[
            "autorenew",
            "autoextend",
            "autorefresh",
            "renew",
            "renewal",
            "refresh",
            "extend",
            "keepalive",
            "heartbeat",
        ],
    ),
    ("cooldown", &["hold", "debounce"]),
    (
        "min_hold",
        &[
            "lockatleastfor",
            "lockatleast",
            "atleast",
            "atleastfor",
            "holdatleast",
            "minholdtime",
            "minlocktime",
            "mintime",
            "throttle",
        ],
    ),
    (
        "replay",
        &[
            "idempotent",
            "idempotency",
            "idempotencyttl",
            "cacheresult",
            "keepresult",
            "memoize",
            "replayfor",
        ],
    ),
    (
        "fingerprint",
        &["payload", "payloadhash", "requesthash", "hash"],
    ),
    (
        "shared",
        &["read", "readonly", "reader", "readlock", "rwlock"],
    ),
    (
        "permits",
        &[
            "maxholders",
            "limit",
            "semaphore",
            "capacity",
            "concurrency",
            "maxconcurrent",
            "slots",
        ],
    ),
    ("reentrant", &["recursive", "nested"]),
    (
        "on_error",
        &[
            "fallback",
            "onfail",
            "onfailure",
            "oncontended",
            "error",
            "maperr",
            "otherwise",
        ],
    ),
    ("detach", &["spawn", "background"]),
    ("guard", &["handle", "lock", "bind", "as"]),
    (
        "pool",
        &[
            "store",
            "backend",
            "client",
            "connection",
            "conn",
            "redis",
            "manager",
            "provider",
        ],
    ),
];

const TTL_OR_WAIT: &str =
    "`ttl` is how long the lock outlives a holder that dies, `wait` is how long to queue for it";

/// Names for which there is no option, and the advice for each.
const ADVICE: [(&[&str], &str); 6] = [
    (
        &["condition", "when", "if", "unless", "skipif", "only"],
        "conditions are not supported: branch in a function that calls this one",
    ),
    (
        &["unit", "timeunit", "units"],
        "the unit is part of each duration: `ttl = \"10s\"`",
    ),
    (
        &["prefix", "namespace", "keyprefix"],
        "set the prefix of all keys on the pool: `LockPool::builder().namespace(\"shop\")`",
    ),
    (
        &[
            "exclusive",
            "write",
            "writer",
            "writelock",
            "nonblocking",
            "skip",
            "failfast",
        ],
        "leave it out: a lock is exclusive and is tried once, unless `shared`, `permits` or `wait` \
         is set",
    ),
    (
        &["fair", "fifo", "queue"],
        "leave it out: calls with a `wait` queue in order",
    ),
    (
        &["token", "owner", "uuid", "value"],
        "leave it out: each call has its own token; the `key` names the lock",
    ),
];

/// Returns the meaning of an unknown name.
pub(crate) fn meaning(name: &str) -> Option<Meaning> {
    let plain = name.replace('_', "").to_lowercase();
    let is = |other: &&str| **other == *plain;
    if ["timeout", "locktimeout", "timeoutms", "maxtime"]
        .iter()
        .any(is)
    {
        return Some(Meaning::Options(&["ttl", "wait"], TTL_OR_WAIT));
    }
    let ours = OPTIONS.iter().find(|(_, others)| others.iter().any(is));
    let advice = || ADVICE.iter().find(|(others, _)| others.iter().any(is));
    ours.map(|(ours, _)| Meaning::Option(ours))
        .or_else(|| advice().map(|(_, advice)| Meaning::Advice(advice)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_spellings_match_the_same_name() {
        for name in ["lockAtMostFor", "lock_at_most_for", "LOCK_AT_MOST_FOR"] {
            assert_eq!(meaning(name), Some(Meaning::Option("ttl")), "{name}");
        }
        assert_eq!(meaning("colour"), None);
    }

    /// Fails if a name is in two lists: the later entry would never be found.
    #[test]
    fn each_name_has_one_meaning() {
        let ours = OPTIONS.iter().flat_map(|(_, names)| names.iter());
        let advice = ADVICE.iter().flat_map(|(names, _)| names.iter());
        let mut names: Vec<&str> = ours.chain(advice).copied().collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
