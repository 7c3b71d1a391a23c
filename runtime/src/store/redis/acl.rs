//! The permissions of a user on the server: the required ones, and optional ones.

/// Commands that every user of leasehold needs, besides access to the keys of its namespace:
///
/// | permission | for |
/// |---|---|
/// | `evalsha`, `script\|load` | the scripts |
/// | `get`, `mget`, `exists`, `set`, `del`, `pexpire`, `pttl`, `time` | inside the scripts |
/// | `hello` | the start of a connection |
/// | `ping` | tests of an idle connection |
/// | `info` | the server's role and settings, for checks and for a master that Sentinels name |
pub(crate) const COMMANDS: &[&str] = &[
    "evalsha",
    "script|load",
    "get",
    "mget",
    "exists",
    "set",
    "del",
    "pexpire",
    "pttl",
    "time",
    "hello",
    "ping",
    "info",
];

/// Optional commands, on the channels of the user's namespace. Without them, a waiting process is
/// not notified when it may take the lock, and repeats its request from time to time.
pub(crate) const FOR_TURNS: &[&str] = &["publish", "subscribe"];

/// Further optional commands. Locks work without them.
///
/// `script|exists` shows which scripts the server has, so that a connection loads only the others.
/// `eval` sends the source of a script, if the server keeps losing its scripts. `client|setname`
/// sets the connection's name in `CLIENT LIST`.
pub(crate) const BESIDES: &[&str] = &["script|exists", "eval", "client|setname"];

/// Additional commands for locks with `shared` or `permits`.
pub(crate) const FOR_SHARES: &[&str] = &[
    "zadd",
    "zcard",
    "zrange",
    "zrem",
    "zremrangebyscore",
    "zscore",
];

/// Additional command for the list of `LockPool::locks`.
pub(crate) const FOR_LISTS: &[&str] = &["scan"];

/// Additional command for a pool that waits for replicas.
pub(crate) const FOR_REPLICAS: &str = "wait";

/// Additional commands on every node of a cluster: for a slot that moves, for the slot map, and for
/// the cluster's state in checks.
pub(crate) const FOR_CLUSTER: &str = "+asking +cluster|slots +cluster|info";

/// Returns the rule for a user of the namespace `lock`, as arguments of `ACL SETUSER`.
pub(crate) fn rule() -> String {
    let commands = [COMMANDS, FOR_TURNS, FOR_SHARES, FOR_LISTS, BESIDES];
    let commands = commands.into_iter().flatten();
    let commands: Vec<_> = commands.map(|name| format!("+{name}")).collect();
    format!("~lock:* &lock:* -@all {}", commands.join(" "))
}

/// Lists the permissions that a user needs.
pub(super) fn advice() -> String {
    format!(
        "the user lacks a permission; with the namespace `lock` it needs {}, +{FOR_REPLICAS} for `replicas`, and {FOR_CLUSTER} for \
         `redis-cluster://`",
        rule()
    )
}
