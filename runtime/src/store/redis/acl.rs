//! The smallest set of permissions, in one place.

/// What a user must be allowed, besides the keys of its namespace:
///
/// | permission | for |
/// |---|---|
/// | `evalsha`, `script\|load` | the scripts |
/// | `get`, `mget`, `exists`, `set`, `del`, `pexpire`, `pttl`, `time` | what the scripts do |
/// | `hello` | the start of a connection |
/// | `ping` | asking an idle connection whether it still works |
/// | `info` | the role and the settings of the server, for the checks and for Sentinels |
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

/// What a user may be allowed besides, on the channels of its namespace. Without it a process that
/// waits is not told of its turn, and looks from time to time.
pub(crate) const FOR_TURNS: &[&str] = &["publish", "subscribe"];

/// What a user may be allowed besides. Without these commands locks work all the same.
///
/// `script|exists` asks which scripts the server has, so that a connection loads only the others.
/// `eval` sends a script by its source where the server forgets it as fast as it is loaded.
/// `client|setname` names the connection in `CLIENT LIST`.
pub(crate) const BESIDES: &[&str] = &["script|exists", "eval", "client|setname"];

/// What a user needs besides for locks that are `shared` or have `permits`.
pub(crate) const FOR_SHARES: &[&str] = &[
    "zadd",
    "zcard",
    "zrange",
    "zrem",
    "zremrangebyscore",
    "zscore",
];

/// What a user needs besides for the list of `LockPool::locks`.
pub(crate) const FOR_LISTS: &[&str] = &["scan"];

/// What a user needs besides where the pool waits for replicas.
pub(crate) const FOR_REPLICAS: &str = "wait";

/// What a user needs besides on every node of a cluster: the map of the slots, the cluster's state
/// for the checks, and a slot that moves.
pub(crate) const FOR_CLUSTER: &str = "+asking +cluster|slots +cluster|info";

/// The rule for a user of the namespace `lock`, as `ACL SETUSER` takes it.
pub(crate) fn rule() -> String {
    let commands = [COMMANDS, FOR_TURNS, FOR_SHARES, FOR_LISTS, BESIDES];
    let commands = commands.into_iter().flatten();
    let commands: Vec<_> = commands.map(|name| format!("+{name}")).collect();
    format!("~lock:* &lock:* -@all {}", commands.join(" "))
}

/// What to do about a command that is not permitted.
pub(super) fn advice() -> String {
    format!(
        "the user lacks a permission; with the namespace `lock` it needs {}, +{FOR_REPLICAS} for `replicas`, and {FOR_CLUSTER} for \
         `redis-cluster://`",
        rule()
    )
}
