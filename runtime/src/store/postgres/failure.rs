//! The meaning of the errors of a server and of a connection.

use std::error::Error as _;
use std::io;

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity};

use crate::error::LockError;
use crate::inspect::info::Holder;
use crate::store::{Failure, Retry};

/// Advice if the server does not keep the settings of a session.
pub(super) const POOLER: &str = "a pooler between this pool and the server does not keep the \
    settings of a session; write `pooler=1` after the URL's `?`, or connect to the server itself";

/// Advice if the tables are missing.
pub(super) const NO_TABLES: &str = "the database does not have leasehold's tables: run \
    `leasehold::postgres::SCHEMA` as a migration, or write `?migrate=1` at the end of the URL once";

const UP: &str = "check that the server is up and the URL is right";

const PRIMARY: &str = "check that the primary is up and that the URL names it";

/// The SQLSTATE of a server that accepts no writes, such as a standby.
pub(super) const STANDBY: &str = "25006";

/// The SQLSTATE of a statement that has waited too long for a locked row.
pub(super) const LOCKED: &str = "55P03";

const NO_FOR_UPDATE: &str = "another transaction keeps rows of leasehold.locks locked; use \
    verify() in your own transactions, not FOR UPDATE";

const TLS: &str = "set `tls_ca` to the authority of the server's certificate, and `tls_client` if \
    the server asks for a client certificate; with `sslmode=verify-full` the server's certificate \
    must be for the URL's host";

/// The reason why an answer has no readable result for a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("another transaction has locked the row")]
    Locked,
    #[error("fewer rows than requests")]
    TooFewRows,
    #[error("an unexpected result")]
    Result,
    #[error(transparent)]
    Value(#[from] Error),
}

/// Meanings of the server's error codes: the code, the retry policy, and advice.
const CODES: &[(&str, Retry, &str)] = &[
    (
        "40001",
        Retry::Now,
        "the request conflicted with another transaction; trying again",
    ),
    (
        "40P01",
        Retry::Now,
        "the request deadlocked with another transaction; trying again",
    ),
    (LOCKED, Retry::Later, NO_FOR_UPDATE),
    (
        "57014",
        Retry::Later,
        "the request was cancelled on the server",
    ),
    ("57P01", Retry::Later, "the server ends the connection"),
    ("57P02", Retry::Later, "another server process has crashed"),
    (
        "57P03",
        Retry::Later,
        "the server is starting or stopping; it will serve when that is done",
    ),
    (
        "53100",
        Retry::Later,
        "the server's disk is full; free some space there",
    ),
    ("53200", Retry::Later, "the server is out of memory"),
    (
        "53300",
        Retry::Later,
        "the server has reached its limit of connections; raise its max_connections",
    ),
    (
        "25006",
        Retry::Later,
        "the server is read-only, as a standby is; point the URL at the primary, or name all hosts in it",
    ),
    (
        "28P01",
        Retry::Never,
        "the server refused the user or the password; correct them",
    ),
    (
        "28000",
        Retry::Never,
        "the server refused the user; correct it, or the server's pg_hba.conf",
    ),
    (
        "3D000",
        Retry::Never,
        "the server has no such database; correct the end of the URL",
    ),
    (
        "42501",
        Retry::Never,
        "the role may not use leasehold's tables or functions; docs/stores/postgres.md has the \
         required rights",
    ),
    (
        "08P01",
        Retry::Later,
        "the pooler could not serve the request; check that the server behind it is up",
    ),
    ("26000", Retry::Never, POOLER),
    ("42P05", Retry::Never, POOLER),
    ("3F000", Retry::Never, NO_TABLES),
    ("42P01", Retry::Never, NO_TABLES),
    ("42883", Retry::Never, NO_TABLES),
];

/// Returns the failure for an error that the server answered with, or for a connection that broke
/// or could not be made.
pub(super) fn of(error: &Error) -> Failure {
    match error.as_db_error() {
        Some(error) => server_error(error),
        None => disconnected(error),
    }
}

/// Codes of errors, or their prefixes, that may arrive although the transaction was committed: a
/// pooler has lost its server, or the server ends. Any other error rolls its transaction back.
const AFTER_A_COMMIT: &[&str] = &["08", "40003", "57P", "58"];

/// True if the request may have been carried out despite the error. An error that also ends the
/// connection (`ends`) may have interrupted a commit's wait for a standby. Such a commit is not
/// undone.
fn may_be_committed(code: &str, ends: bool) -> bool {
    ends || AFTER_A_COMMIT.iter().any(|kind| code.starts_with(kind))
}

fn server_error(error: &DbError) -> Failure {
    let found = match error.code().code() {
        // A standby refuses to begin a transaction that may write.
        "0A000" => STANDBY,
        found => found,
    };
    let known = CODES.iter().find(|(code, _, _)| *code == found);
    // pgbouncer uses one code for most of its errors, so the error's text is also compared.
    let is_pooler = found == "08P01" && error.message().contains("startup parameter");
    let pooler = is_pooler.then_some(("08P01", Retry::Never, POOLER));
    let (code, retry, advice) = pooler.or(known.copied()).unwrap_or((
        "ERR",
        Retry::Later,
        "the server could not carry out the request",
    ));
    // The text `severity` is in the server's language, so it is read only if the driver has not
    // parsed the severity.
    let ends = error.parsed_severity().map_or_else(
        || matches!(error.severity(), "FATAL" | "PANIC"),
        |severity| matches!(severity, Severity::Fatal | Severity::Panic),
    );
    let executed = may_be_committed(found, ends);
    let detail = first_line(error.message());
    Failure::unavailable(
        code,
        format!("{advice} ({found}: {detail})"),
        retry,
        executed,
    )
}

fn disconnected(error: &Error) -> Failure {
    let what = error.to_string();
    let why = error.source().map(|why| format!(": {why}"));
    let detail = first_line(&format!("{what}{}", why.unwrap_or_default()));
    if detail.contains("TLS") || detail.contains("fatal alert") {
        failed("tls", &detail, TLS)
    } else {
        failed("io", &detail, UP)
    }
}

/// Returns the failure of an operator's attempt to take away a lock that only a transaction keeps.
/// The transaction has called `verify` for the last holder, and keeps the lock until it ends.
pub(super) fn pinned(key: &str, pin: &Holder) -> Failure {
    let session = pin.owner.as_ref();
    let name = session.map_or_else(|| "a transaction".to_owned(), ToString::to_string);
    let end = match session.map(|session| session.pid) {
        Some(0) => "end it with `ROLLBACK PREPARED` or `COMMIT PREPARED`".to_owned(),
        Some(pid) => format!("end its session with `SELECT pg_terminate_backend({pid})`"),
        None => "end it".to_owned(),
    };
    unfit(format!(
        "no call has the lock `{key}`, but {name} pins it, and a transaction cannot be taken away: {end}"
    ))
}

/// Returns the failure of a server that cannot be reached.
pub(super) fn out_of_reach(error: &io::Error) -> Failure {
    failed("io", &error.to_string(), UP)
}

/// Returns the failure of a server that accepts no writes. Used only if the URL names several
/// servers: the pool then tries the others, because one of them may be the primary.
pub(super) fn standby() -> Failure {
    failed(STANDBY, "the server does not accept writes", PRIMARY)
}

fn failed(code: &'static str, detail: &str, advice: &str) -> Failure {
    let text = format!("the connection failed: {detail}; {advice}");
    Failure::unavailable(code, text, Retry::Later, true)
}

/// Returns the failure of a separate connection for notifications, if its server does not accept
/// LISTEN.
pub(super) fn deaf() -> Failure {
    Failure::unavailable(
        "turns",
        "the server of `listen` does not accept LISTEN; name the primary itself there".to_owned(),
        Retry::Later,
        false,
    )
}

pub(super) fn ended() -> Failure {
    Failure::unavailable(
        "io",
        "the server closed the connection; check that it is up".to_owned(),
        Retry::Later,
        true,
    )
}

pub(super) fn silent() -> Failure {
    Failure::unavailable(
        "timeout",
        "the server did not answer in time; check that it is up and reachable".to_owned(),
        Retry::Later,
        true,
    )
}

/// Returns the failure for an unreadable answer, or for a row that the call skipped because another
/// transaction has locked it.
pub(super) fn unread(problem: &Problem) -> Failure {
    if matches!(problem, Problem::Locked) {
        return Failure::unavailable(LOCKED, NO_FOR_UPDATE.to_owned(), Retry::Later, false);
    }
    let text = format!(
        "the server's answer is not an answer of leasehold's functions ({problem}); {NO_TABLES}"
    );
    Failure::unavailable("protocol", text, Retry::Never, true)
}

/// Returns a failure that a retry cannot solve, such as missing tables.
pub(super) fn unfit(reason: String) -> Failure {
    Failure {
        error: LockError::config(reason),
        retry: Retry::Never,
        executed: false,
    }
}

/// Converts the failure of a connection to the failure of a request that was never sent.
pub(super) fn not_sent(failure: Failure) -> Failure {
    Failure {
        executed: false,
        ..failure
    }
}

/// Returns a server's text, cut to one line and 120 characters.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::may_be_committed;

    /// Fails if an error that can follow a commit, such as a pooler's loss of its server, counts as
    /// a rollback. Also fails if the error of a rollback counts as a possible commit.
    #[test]
    fn error_codes_show_a_possible_commit() {
        for code in ["40001", "40P01", "53100", "55P03", "57014", "XX000"] {
            assert!(!may_be_committed(code, false), "{code}: rolled back");
            assert!(may_be_committed(code, true), "{code}: it may be a commit's");
        }
        for code in ["08006", "40003", "57P01", "58000"] {
            assert!(may_be_committed(code, false), "{code}");
        }
    }
}
