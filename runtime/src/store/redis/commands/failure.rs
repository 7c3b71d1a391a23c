//! Interprets errors from a server and from a connection.

use redis::{ErrorKind, RedisError};

use crate::base::seeded::seeded;
use crate::store::redis::acl;
use crate::store::redis::garbage;
use crate::store::{Failure, Retry};

/// Advice if a URL names a node of a cluster as a single server.
const OF_A_CLUSTER: &str = "the server is part of a cluster; one node alone cannot serve all keys, so write redis-cluster://host:port,… with some of its nodes";

/// The server's error codes, each with a retry rule and advice for the operator.
const CODES: &[(&str, Retry, &str)] = &[
    (
        "NOSCRIPT",
        Retry::Now,
        "the server has lost its scripts; loading them again",
    ),
    (
        "LOADING",
        Retry::Later,
        "the server is still loading its data; it will serve when that is done",
    ),
    (
        "BUSY",
        Retry::Later,
        "the server is busy with another client's script",
    ),
    (
        "TRYAGAIN",
        Retry::Later,
        "the cluster is moving this key's slot to another node; it will serve when that is done",
    ),
    (
        "CLUSTERDOWN",
        Retry::Later,
        "the cluster is down: a master is gone and no replica has taken over, or some slots have no node; look at CLUSTER INFO",
    ),
    (
        "MASTERDOWN",
        Retry::Later,
        "the replica has lost its master",
    ),
    (
        "READONLY",
        Retry::Later,
        "the server is a read-only replica; point the URL at the master",
    ),
    (
        "LATE",
        Retry::Later,
        "the request arrived too late, or the server's clock was set; nothing was changed",
    ),
    ("MOVED", Retry::Never, OF_A_CLUSTER),
    ("ASK", Retry::Never, OF_A_CLUSTER),
    ("CROSSSLOT", Retry::Never, OF_A_CLUSTER),
    (
        "OOM",
        Retry::Never,
        "the server's memory is full; raise its maxmemory or remove data",
    ),
    (
        "MISCONF",
        Retry::Never,
        "the server cannot write its snapshot and refuses writes; look at its log",
    ),
    (
        "NOREPLICAS",
        Retry::Never,
        "the server has too few replicas and refuses writes",
    ),
    (
        "NOAUTH",
        Retry::Never,
        "the server requires a password; put it into the URL, redis://user:password@host/",
    ),
    (
        "WRONGPASS",
        Retry::Never,
        "the server refused the user or the password; correct them",
    ),
    // The advice comes from `acl`.
    ("NOPERM", Retry::Never, ""),
    (
        "WRONGTYPE",
        Retry::Never,
        "the key is in use for other data; choose another key or namespace",
    ),
    (
        "NOPROTO",
        Retry::Never,
        "the server does not support the requested protocol",
    ),
    ("EXECABORT", Retry::Never, "the server refused the request"),
];

/// Codes that a server reports only before a script's first write. A script that fails with one of
/// them has changed nothing.
const BEFORE_A_WRITE: &[&str] = &["READONLY", "OOM", "MISCONF", "NOREPLICAS"];

/// True if a command inside a script failed, and earlier commands of this script may have changed
/// something.
fn is_of_a_script(code: &str, details: &str) -> bool {
    details.contains("@user_script") && !BEFORE_A_WRITE.contains(&code)
}

/// Returns the failure for an error from the server, which refused a request or aborted a script.
pub(crate) fn server_error(code: &str, details: Option<&str>) -> Failure {
    let details = details.unwrap_or_default();
    let known = CODES
        .iter()
        .find(|(known, _, _)| *known == hidden_code(code, details));
    let (code, retry, advice) = match known {
        Some((code, retry, advice)) => (*code, *retry, *advice),
        // Redis 5 reports a wrong password without a code.
        None if details == "invalid password" => {
            return server_error("WRONGPASS", Some(details));
        }
        None if details.contains("max number of clients") => (
            "maxclients",
            Retry::Later,
            "the server has reached its limit of clients; raise its maxclients",
        ),
        None if details.contains("DB index is out of range") => (
            "ERR",
            Retry::Never,
            "the server has no database with that number; change the end of the URL, or raise the \
             server's `databases`",
        ),
        None => ("ERR", Retry::Never, "the server refused the request"),
    };
    let advice = match code {
        "NOPERM" => acl::advice(),
        _ => advice.to_owned(),
    };
    Failure::unavailable(
        code,
        format!("{advice} ({code}: {})", first_line(details)),
        retry,
        is_of_a_script(code, details) && !seeded!(ScriptsAreWhole),
    )
}

/// Returns the error code of a command inside a script. Some versions of Redis report this code
/// only in the details of an error with the code `ERR`.
pub(crate) fn hidden_code<'a>(code: &'a str, details: &str) -> &'a str {
    if code != "ERR" {
        return code;
    }
    if details.contains("can't run this command")
        || details.contains("No permissions")
        || details.contains("NOPERM")
    {
        "NOPERM"
    } else if details.contains("OOM ") {
        "OOM"
    } else if details.contains("WRONGTYPE ") {
        "WRONGTYPE"
    } else if details.contains("READONLY ") || details.contains("Write commands are not allowed") {
        "READONLY"
    } else if details.contains("MISCONF ") {
        "MISCONF"
    } else {
        code
    }
}

/// Returns the failure for a server that loses its scripts repeatedly, if the user may not send
/// their source.
pub(crate) fn forgotten() -> Failure {
    let failure = server_error("NOSCRIPT", Some("and the user may not send EVAL"));
    Failure {
        retry: Retry::Later,
        ..failure
    }
}

/// Returns the failure for a connection that broke or could not be opened. The server may have
/// carried out requests that were sent on it.
pub(crate) fn broken(error: &RedisError) -> Failure {
    if let Some(what) = garbage::garbage_in(error) {
        return garbage(&what.to_string());
    }
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => {
            server_error(error.code().unwrap_or("ERR"), error.detail())
        }
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => {
            garbage("something that is not the Redis protocol")
        }
        _ if error.is_timeout() => Failure::unavailable(
            "timeout",
            "the server did not answer in time; check that it is up and reachable".to_owned(),
            Retry::Later,
            true,
        ),
        _ => disconnected(&error.to_string()),
    }
}

fn disconnected(error: &str) -> Failure {
    let error = first_line(error);
    let (code, text) = match handshake(&error) {
        Some(advice) => ("tls", format!("{advice} ({error})")),
        None => (
            "io",
            format!(
                "the connection failed: {error}; check that the server is up and the URL is right"
            ),
        ),
    };
    Failure::unavailable(code, text, Retry::Later, true)
}

/// Returns advice for an error in the TLS handshake.
fn handshake(error: &str) -> Option<&'static str> {
    if error.contains("invalid peer certificate") {
        return Some(
            "the server's certificate is not trusted; give the pool its authority with `tls_ca`, \
             and use the name in the certificate as the URL's host",
        );
    }
    if error.contains("received fatal alert") {
        return Some(
            "the server refused the TLS connection; if it asks for a client certificate, give the pool one with `tls_client`",
        );
    }
    let is_plain = error.contains("corrupt message") || error.contains("InvalidContentType");
    is_plain.then_some(
        "the server does not speak TLS on this port; correct the port, or write redis:// for a \
         plain-text connection",
    )
}

pub(crate) fn silent() -> Failure {
    let text = "the server does not answer; check that it is up and reachable".to_owned();
    Failure::unavailable("timeout", text, Retry::Later, true)
}

pub(crate) fn abandoned() -> Failure {
    let text = "the call that requested the lock has ended".to_owned();
    Failure::unavailable("abandoned", text, Retry::Later, false)
}

pub(crate) fn garbage(what: &str) -> Failure {
    Failure::unavailable(
        "protocol",
        format!("the server answered with {what}; check that the URL names a Redis server"),
        Retry::Never,
        true,
    )
}

/// Cuts a text from the server to its first line, and to 120 characters.
fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(120)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command in the middle of a script fails, after earlier commands may have changed
    /// something. Fails if this failure counts as not executed.
    #[test]
    fn only_certain_failures_count_as_not_executed() {
        let of_7 =
            "User x has no permissions to run the 'zadd' command script: 3af, on @user_script:9.";
        let of_6 = "Error running script (call to f_3af): @user_script:9: @user_script: 9: -NOPERM this user has no permissions";
        let non_local = "Script attempted to access a non local key in a cluster node script: 3af, on @user_script:9.";
        for (code, details) in [("NOPERM", of_7), ("ERR", of_6), ("ERR", non_local)] {
            assert!(server_error(code, Some(details)).executed, "{details}");
        }
        let full =
            "command not allowed when used memory > 'maxmemory'. script: 3af, on @user_script:9.";
        for (code, details) in [
            ("OOM", full),
            (
                "NOPERM",
                "User x has no permissions to run the 'evalsha' command",
            ),
            ("LOADING", "Redis is loading the dataset in memory"),
        ] {
            assert!(!server_error(code, Some(details)).executed, "{details}");
        }
    }
}
