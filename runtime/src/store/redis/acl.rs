//! The smallest set of permissions, in one place.

/// Commands that every user needs, besides the keys of its namespace:
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

/// Optional commands, on the channels of the user's namespace. Without them a waiting process is
/// not notified of its turn, and looks from time to time.
pub(crate) const FOR_TURNS: &[&str] = &["publish", "subscribe"];

/// More optional commands. Locks work without them.
///
/// `script|exists` asks which scripts the server has, so that a connection loads only the others.
/// `eval` sends a script by its source, if the server forgets scripts as fast as they are loaded.
/// `client|setname` names the connection in `CLIENT LIST`.
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

/// Additional commands on every node of a cluster. They are for the map of the slots, for the
/// cluster's state in the checks, and for a slot that moves.
pub(crate) const FOR_CLUSTER: &str = "+asking +cluster|slots +cluster|info";

/// Returns the rule for a user of the namespace `lock`, in the form that `ACL SETUSER` takes.
pub(crate) fn rule() -> String {
    let commands = [COMMANDS, FOR_TURNS, FOR_SHARES, FOR_LISTS, BESIDES];
    let commands = commands.into_iter().flatten();
    let commands: Vec<_> = commands.map(|name| format!("+{name}")).collect();
    format!("~lock:* &lock:* -@all {}", commands.join(" "))
}

/// Describes what to do about a forbidden command.
pub(super) fn advice() -> String {
    format!(
        "the user lacks a permission; with the namespace `lock` it needs {}, +{FOR_REPLICAS} for `replicas`, and {FOR_CLUSTER} for \
         `redis-cluster://`",
        rule()
    )
}
