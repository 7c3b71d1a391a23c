//! Checks of the parsers for the URLs of stores.

use super::Input;
use crate::store::backend::Target;

const SCHEMES: [&str; 12] = [
    "redis",
    "rediss",
    "redis+unix",
    "redis-sentinel",
    "rediss-sentinel",
    "redis-cluster",
    "redlock",
    "postgres",
    "etcd",
    "etcds",
    "zookeeper",
    "memory",
];

const PASSWORD: &str = "hunter2";

/// Checks that no error or log text shows a password, however the URL is written and wherever its
/// parser splits it.
///
/// The input is a byte for the scheme, three lines, and the rest. The lines are the user and the
/// texts before and after the password. The rest is the part of the URL behind the credentials.
///
/// # Panics
///
/// If a property does not hold.
pub fn urls(bytes: &[u8]) {
    let mut input = Input(bytes);
    let scheme = SCHEMES[usize::from(input.byte()) % SCHEMES.len()];
    let (Some(user), Some(before), Some(behind)) = (input.line(), input.line(), input.line())
    else {
        return;
    };
    let Ok(rest) = str::from_utf8(input.0) else {
        return;
    };
    let url = format!("{scheme}://{user}:{before}{PASSWORD}{behind}@{rest}");
    // Between an `@` and a comma, the password is a part of a host, as in `user:u@hunter2,node`.
    // The text of a host is not secret.
    let is_host = (user.contains('@') || before.contains('@')) && behind.contains(',');
    // The text of a path is not secret either, as in `redis+unix:///u:hunter2`.
    let is_path = scheme == "redis+unix" && user.starts_with('/');
    check(&url, !is_host && !is_path && has_one(&url));
    // Also parses `rest` alone as a URL. If it has a comma, the text shown is not checked, because
    // another node begins at the comma and may have separate credentials.
    let credentials = rest
        .split_once("://")
        .and_then(|(_, rest)| rest.rsplit_once('@'))
        .filter(|_| !rest.contains(','));
    let is_secret =
        credentials.is_some_and(|(credentials, _)| credentials.contains(PASSWORD) && has_one(rest));
    check(rest, is_secret);
}

/// True if `url` contains the password once. Skips control characters, because URL parsers remove
/// tabs and line breaks.
fn has_one(url: &str) -> bool {
    let url: String = url.chars().filter(|c| !c.is_control()).collect();
    url.matches(PASSWORD).count() == 1
}

fn check(url: &str, is_secret: bool) {
    let shown = match Target::parse(url) {
        Ok(target) => target.to_string(),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!is_secret || !shown.contains(PASSWORD), "{url}: {shown}");
}
