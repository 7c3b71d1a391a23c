//! Meaning of the errors of a server and of a connection.

use std::error::Error;

use tonic::{Code, Status};

use crate::base::io_text::io_text;
use crate::base::seeded::seeded;
use crate::store::{Failure, Retry};

/// The reason why a request has failed.
pub(super) enum Problem {
    /// The server answered with an error, or the connection broke.
    Status(Status),
    /// No answer came in time. `dead` is true if the silence was so long that the connection is
    /// given up.
    Silent { dead: bool },
}

/// Prefixes of errors that come from the server, not from the connection. If the API of a version
/// does not define an error of etcd's package `auth`, the error has the prefix `auth:`. An example
/// is the error for an old token in 3.5.0.
const SERVER: [&str; 2] = ["etcdserver:", "auth:"];

/// Code of a failure that a new login resolves.
const LOGIN: &str = "login";

/// Text of a refused login.
pub(super) const REFUSED: &str = "authentication failed";

/// Code of the failure if the server's database is full.
const FULL: &str = "no-space";

const NEW_LOGIN: &str = "the server no longer accepts the token of this client; logging in again";

/// A piece of the server's error text, the failure's code, the retry policy, true if the request
/// may have been carried out, and advice.
type Known = (&'static str, &'static str, Retry, bool, &'static str);

/// Meaning of the server's errors. The page docs/reliability/errors.md has the reason why a request
/// may or may not have been carried out.
const KNOWN: &[Known] = &[
    (
        "no leader",
        "no-leader",
        Retry::Later,
        false,
        "the cluster has no leader now; it serves again when most of its members reach each other",
    ),
    (
        "leader changed",
        "no-leader",
        Retry::Now,
        true,
        "the cluster has changed its leader",
    ),
    (
        "not leader",
        "no-leader",
        Retry::Now,
        true,
        "the cluster has changed its leader",
    ),
    (
        "too many requests",
        "overload",
        Retry::Later,
        false,
        "the server has more requests than it can handle",
    ),
    (
        "database space exceeded",
        FULL,
        Retry::Later,
        // The server checks its quota twice. If only the second check fails, the server returns
        // this error although it carries the transaction out.
        true,
        "the server's database is full, so no lock can be taken; compact and defragment it, and \
         disarm its alarm",
    ),
    (
        "permission denied",
        "permission",
        Retry::Never,
        false,
        "the user may not read and write the keys of the locks; docs/stores/etcd.md has the \
         required role",
    ),
    (
        REFUSED,
        "permission",
        Retry::Never,
        false,
        "the server refused the user or the password; correct them",
    ),
    (
        "user name is empty",
        "permission",
        Retry::Never,
        false,
        "the server requires a user; write etcd://user:password@host",
    ),
    (
        "authentication is not enabled",
        "permission",
        Retry::Never,
        false,
        "the URL names a user, but the server has no users; leave the user out, or enable \
         authentication on the server",
    ),
    ("invalid auth token", LOGIN, Retry::Now, false, NEW_LOGIN),
    // For the next two errors: users or roles have changed since the token (JWT) was signed. The
    // server has two wordings for this.
    (
        "revision of auth store is old",
        LOGIN,
        Retry::Now,
        false,
        NEW_LOGIN,
    ),
    (
        "revision in header is old",
        LOGIN,
        Retry::Now,
        false,
        NEW_LOGIN,
    ),
];

const TLS: &str = "set `tls_ca` to the authority of the server's certificate, and `tls_client` if \
    the server asks for a client certificate; the server's certificate must be for the URL's host";

/// Converts a problem to the failure of a call.
pub(super) fn of(problem: &Problem) -> Failure {
    match problem {
        Problem::Silent { .. } => silent(),
        Problem::Status(status) if is_of_tls(status) => Failure {
            // The request may have been sent.
            executed: true,
            ..of_tls(&innermost(status))
        },
        Problem::Status(status) if is_broken(status) => disconnected(&innermost(status)),
        Problem::Status(status) => server_error(status),
    }
}

/// True if a new connection may serve better, because the current one is of no use. Either it is
/// broken or was silent for too long, its token is refused, or its member cannot serve.
pub(super) fn ends_the_connection(problem: &Problem) -> bool {
    match problem {
        Problem::Silent { dead } => *dead,
        Problem::Status(status) => {
            let is_login = known(status).is_some_and(|(_, code, ..)| *code == LOGIN);
            is_broken(status)
                || status.code() == Code::Unavailable
                || (is_login && !seeded!(OldTokenKept))
        }
    }
}

/// True if the connection caused the problem: it is broken, or has been silent for too long.
pub(super) fn is_of_the_connection(problem: &Problem) -> bool {
    match problem {
        Problem::Silent { dead } => *dead,
        Problem::Status(status) => is_broken(status),
    }
}

/// True if a new connection has broken, or its first request got no answer.
pub(super) fn is_broken_by(problem: &Problem) -> bool {
    match problem {
        Problem::Silent { .. } => true,
        Problem::Status(status) => is_broken(status),
    }
}

/// True if the server reports the end of a session.
pub(super) fn is_end_of_session(problem: &Problem) -> bool {
    match problem {
        Problem::Status(status) => {
            status.code() == Code::NotFound && status.message().contains("lease not found")
        }
        Problem::Silent { .. } => false,
    }
}

/// True if the error comes from the connection, and not from the server.
fn is_broken(status: &Status) -> bool {
    let broken = matches!(
        status.code(),
        Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled
    );
    let mut own = SERVER.iter();
    broken && !own.any(|own| status.message().starts_with(own))
}

fn known(status: &Status) -> Option<&'static Known> {
    KNOWN
        .iter()
        .find(|(part, ..)| status.message().contains(part))
}

fn server_error(status: &Status) -> Failure {
    let detail = first_line(status.message());
    let (_, code, retry, executed, advice) = known(status).copied().unwrap_or((
        "",
        "ERR",
        Retry::Later,
        true,
        "the server could not carry out the request",
    ));
    let executed = executed && !(code == FULL && seeded!(FullIsRefused));
    Failure::unavailable(code, format!("{advice} ({detail})"), retry, executed)
}

/// True if the server may still carry the request out after this failure. False for a full
/// database, because the server then answers only after it has finished the request.
pub(super) fn may_be_late(failure: &Failure) -> bool {
    failure.executed && failure.code() != FULL
}

/// Converts the error of an attempt to connect to a failure.
pub(super) fn of_transport(error: &tonic::transport::Error) -> Failure {
    let detail = innermost(error);
    not_sent(if is_of_tls(error) {
        of_tls(&detail)
    } else {
        disconnected(&detail)
    })
}

fn causes(error: &dyn Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}

/// Returns the failure of an encrypted connection that broke at its first request. TLS is the
/// likely cause: with TLS 1.3, a member refuses a client's certificate only after the handshake.
pub(super) fn of_first_question(problem: &Problem) -> Failure {
    match problem {
        Problem::Status(status) if is_broken(status) => of_tls(&innermost(status)),
        problem => of(problem),
    }
}

/// Returns the text of the innermost cause, in one line.
fn innermost(error: &dyn Error) -> String {
    let Some(last) = causes(error).last() else {
        return first_line(&error.to_string());
    };
    let text = last.downcast_ref().map(io_text);
    first_line(&text.unwrap_or_else(|| last.to_string()))
}

/// True if client and server could not set up an encrypted connection.
#[cfg(feature = "tls")]
fn is_of_tls(error: &dyn Error) -> bool {
    causes(error).any(|cause| {
        let cause = cause.downcast_ref::<std::io::Error>();
        let inner = cause.and_then(std::io::Error::get_ref);
        inner.is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>)
    })
}

#[cfg(not(feature = "tls"))]
fn is_of_tls(_error: &dyn Error) -> bool {
    false
}

fn of_tls(detail: &str) -> Failure {
    Failure::unavailable("tls", format!("{TLS} ({detail})"), Retry::Later, false)
}

fn disconnected(detail: &str) -> Failure {
    let text = format!(
        "the connection failed: {detail}; check that the server is up and the URL is right"
    );
    Failure::unavailable("io", text, Retry::Later, true)
}

pub(super) fn silent() -> Failure {
    Failure::unavailable(
        "timeout",
        "the server did not answer in time; check that it is up and reachable".to_owned(),
        Retry::Later,
        true,
    )
}

/// Returns the failure for an unreadable answer.
pub(super) fn garbled() -> Failure {
    Failure::unavailable(
        "protocol",
        "the server did not answer with etcd's API version 3; check that the URL names an etcd \
         server"
            .to_owned(),
        Retry::Never,
        true,
    )
}

/// Returns the failure of a request that conflicted with other changes at each try, or whose node
/// this process has already removed.
pub(super) fn unsettled() -> Failure {
    Failure::unavailable(
        "conflict",
        "the request conflicted repeatedly with other changes of the same keys; trying again"
            .to_owned(),
        Retry::Later,
        false,
    )
}

/// Marks a failure as not executed, because the request was not sent.
pub(super) fn not_sent(failure: Failure) -> Failure {
    Failure {
        executed: false,
        ..failure
    }
}

/// Returns the first line of an error text, cut to 120 characters.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Errors of `api/v3rpc/rpctypes/error.go` and of etcd's package `auth`: the number of the gRPC
    /// code, and the text. Each with its meaning here: the failure's code, the retry policy, and
    /// true if the request may have been carried out.
    type Official = (i32, &'static str, (&'static str, Retry, bool));

    const PERMISSION: (&str, Retry, bool) = ("permission", Retry::Never, false);
    const OLD_TOKEN: (&str, Retry, bool) = (LOGIN, Retry::Now, false);
    const NO_LEADER: (&str, Retry, bool) = ("no-leader", Retry::Later, false);
    const NEW_LEADER: (&str, Retry, bool) = ("no-leader", Retry::Now, true);
    const OVERLOAD: (&str, Retry, bool) = ("overload", Retry::Later, false);
    const NO_SPACE: (&str, Retry, bool) = (FULL, Retry::Later, true);
    const UNKNOWN: (&str, Retry, bool) = ("ERR", Retry::Later, true);

    const OFFICIAL: [Official; 20] = [
        (14, "etcdserver: no leader", NO_LEADER),
        (14, "etcdserver: leader changed", NEW_LEADER),
        (9, "etcdserver: not leader", NEW_LEADER),
        (8, "etcdserver: too many requests", OVERLOAD),
        (8, "etcdserver: mvcc: database space exceeded", NO_SPACE),
        (7, "etcdserver: permission denied", PERMISSION),
        (
            3,
            "etcdserver: authentication failed, invalid user ID or password",
            PERMISSION,
        ),
        (
            2,
            "auth: authentication failed, password was given for no password user",
            PERMISSION,
        ),
        (3, "etcdserver: user name is empty", PERMISSION),
        (9, "etcdserver: authentication is not enabled", PERMISSION),
        (16, "etcdserver: invalid auth token", OLD_TOKEN),
        (3, "etcdserver: revision of auth store is old", OLD_TOKEN),
        (2, "auth: revision in header is old", OLD_TOKEN),
        (14, "etcdserver: request timed out", UNKNOWN),
        (
            14,
            "etcdserver: request timed out, possibly due to previous leader failure",
            UNKNOWN,
        ),
        (
            14,
            "etcdserver: request timed out, possibly due to connection lost",
            UNKNOWN,
        ),
        (14, "etcdserver: server stopped", UNKNOWN),
        (14, "etcdserver: unhealthy cluster", UNKNOWN),
        (15, "etcdserver: corrupt cluster", UNKNOWN),
        (3, "etcdserver: request is too large", UNKNOWN),
    ];

    fn problem(code: i32, text: &str) -> Problem {
        Problem::Status(Status::new(Code::from_i32(code), text))
    }

    /// Fails if an error of the server has the wrong meaning, or counts as an error of the
    /// connection.
    #[test]
    fn each_error_of_the_server_is_known() {
        for (code, text, meaning) in OFFICIAL {
            let problem = problem(code, text);
            let failure = of(&problem);
            let found = (failure.code(), failure.retry, failure.executed);
            assert_eq!(found, meaning, "{text}");
            assert!(!is_of_the_connection(&problem), "{text}");
            assert!(!is_end_of_session(&problem), "{text}");
        }
        let broken = problem(14, "error reading a body from connection");
        assert!(is_of_the_connection(&broken) && of(&broken).executed);
    }

    /// Fails if `KNOWN` has a text that no error of the server contains.
    #[test]
    fn each_known_text_is_official() {
        for (part, ..) in KNOWN {
            let mut official = OFFICIAL.iter();
            assert!(official.any(|(_, text, _)| text.contains(part)), "{part}");
        }
    }

    /// Fails if another missing object counts as the end of a session.
    #[test]
    fn only_a_missing_lease_ends_a_session() {
        let is_end = |text| is_end_of_session(&problem(5, text));
        assert!(is_end("etcdserver: requested lease not found"));
        assert!(!is_end("etcdserver: member not found"));
    }
}
