//! Converts the errors of servers and connections to failures, each with advice for the user.

use std::fmt::Display;

use super::error::Error;
use crate::error::LockError;
use crate::store::session::service::Trouble;
use crate::store::{Failure, NO_CREDENTIALS, Retry};

/// Meaning of a refused login: the code, the retry policy, true if a request may have been carried
/// out, and advice.
const REFUSED: (&str, Retry, bool, &str) = (
    "permission",
    Retry::Never,
    false,
    "the server refused the user or the password; correct them",
);

/// Converts an error to `Trouble`: to `Ended` for an expired session, and to a failure for any
/// other error.
pub(super) fn trouble(error: &Error) -> Trouble {
    match error {
        Error::SessionExpired => Trouble::Ended,
        error => Trouble::Failed(of(error)),
    }
}

pub(super) fn of(error: &Error) -> Failure {
    let (code, retry, executed, advice) = match error {
        Error::Timeout => return silent(),
        Error::Garbled => return garbled(),
        Error::NoAuth => (
            "permission",
            Retry::Never,
            false,
            "the user may not change znodes below the chroot; see docs/stores/zookeeper.md",
        ),
        Error::NoCredentials(why) => return no_credentials(why),
        Error::AuthFailed => REFUSED,
        Error::QuotaExceeded => (
            "no-space",
            Retry::Later,
            false,
            "the quota of the chroot is used up, so no lock can be taken; raise it",
        ),
        Error::Throttled => (
            "overload",
            Retry::Later,
            false,
            "the server has more requests than it can handle",
        ),
        Error::Unimplemented => (
            "version",
            Retry::Never,
            false,
            "the server does not support container znodes; locks need ZooKeeper 3.5 or later",
        ),
        Error::NotReadOnly => (
            "no-leader",
            Retry::Later,
            false,
            "the server has lost the leader of its ensemble",
        ),
        Error::NoNode | Error::NodeExists | Error::BadVersion => (
            "conflict",
            Retry::Later,
            true,
            "the request conflicted with other changes of the same znodes; trying again",
        ),
        Error::Refused(_) => (
            "ERR",
            Retry::Never,
            false,
            "the server cannot carry out the request; look at its log and its settings",
        ),
        Error::Other(_) => (
            "ERR",
            Retry::Later,
            true,
            "the server may have carried out the request; look at its log and its settings",
        ),
        Error::Disconnected(_) | Error::SessionExpired => return disconnected(error),
    };
    Failure::unavailable(code, format!("{advice} ({error})"), retry, executed)
}

fn no_credentials(why: &str) -> Failure {
    Failure::unavailable(NO_CREDENTIALS, why.to_owned(), Retry::Later, false)
}

fn disconnected(detail: &impl Display) -> Failure {
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

/// Returns the failure of a request that waited too long behind other requests of this process.
pub(super) fn busy() -> Failure {
    Failure::unavailable(
        "timeout",
        "the server did not answer the requests before this one in time; check its load, or let fewer calls wait"
            .to_owned(),
        Retry::Later,
        true,
    )
}

/// Returns the failure for an unreadable answer.
pub(super) fn garbled() -> Failure {
    Failure::unavailable(
        "protocol",
        "the server did not answer like ZooKeeper; check that the URL names a ZooKeeper server"
            .to_owned(),
        Retry::Never,
        true,
    )
}

/// Returns the failure for a directory with a znode that does not follow Curator's recipe for an
/// exclusive lock.
pub(super) fn foreign(directory: &str, name: &str) -> Failure {
    Failure::unavailable(
        "recipe",
        format!(
            "`{directory}` has the znode `{name}`, which does not belong to an \
             `InterProcessMutex`; give locks of other recipes another path"
        ),
        Retry::Later,
        true,
    )
}

/// Returns the failure for a URL whose servers allow no common session length. Such servers belong
/// to different ensembles, or have different settings.
pub(super) fn apart() -> Failure {
    Failure::unavailable(
        "session",
        "the servers of the URL do not allow sessions of the same length; name those of one \
         ensemble, with the same settings"
            .to_owned(),
        Retry::Never,
        false,
    )
}

/// Returns the failure for a directory that has used up its sequence numbers. The numbers of
/// further znodes would not show the order of the queue.
pub(super) fn worn_out(directory: &str) -> Failure {
    Failure::unavailable(
        "numbers",
        format!(
            "`{directory}` has used all of its 2147483647 numbers; delete it when no process holds \
             its lock"
        ),
        Retry::Later,
        true,
    )
}

/// Marks a failure as possibly executed, for a call that has created a node or may have done so.
pub(super) fn after_making(trouble: Trouble) -> Trouble {
    match trouble {
        Trouble::Failed(failure) => Trouble::Failed(Failure {
            executed: true,
            ..failure
        }),
        Trouble::Ended => Trouble::Ended,
    }
}

/// Returns the failure of a request that conflicted with other changes at each try.
pub(super) fn unsettled() -> Failure {
    Failure::unavailable(
        "conflict",
        "the request conflicted repeatedly with other changes of the same znodes; trying again"
            .to_owned(),
        Retry::Later,
        true,
    )
}

/// Returns the failure of a release that must keep the lock for some time. ZooKeeper cannot do
/// this, because the lock's znode ends with its session, which belongs to this process.
pub(super) fn cannot_keep() -> Failure {
    Failure {
        error: LockError::config(
            "a lock of `zookeeper://` cannot stay after its release, because it ends with a session of this process",
        ),
        retry: Retry::Never,
        executed: false,
    }
}

/// Marks a failure as not executed, because the request was not sent.
pub(super) fn not_sent(failure: Failure) -> Failure {
    Failure {
        executed: false,
        ..failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a failure is marked as not executed although the server may have carried out the
    /// request, or the other way round.
    #[test]
    fn only_certain_failures_count_as_not_executed() {
        let executed = |error| of(&error).executed;
        for error in [
            Error::NoAuth,
            Error::QuotaExceeded,
            Error::Throttled,
            Error::NotReadOnly,
            Error::AuthFailed,
            Error::Refused(-8),
        ] {
            assert!(!executed(error.clone()), "{error}");
        }
        for error in [
            Error::Disconnected("cut".to_owned()),
            Error::NodeExists,
            Error::Other(-1),
        ] {
            assert!(executed(error.clone()), "{error}");
        }
    }

    /// The codes of `KeeperException.java` in ZooKeeper 3.9. Each with its meaning here: the
    /// failure's code, the retry policy, and true if the request may have been carried out.
    type Official = (i32, &'static str, (&'static str, Retry, bool));

    const CONFLICT: (&str, Retry, bool) = ("conflict", Retry::Later, true);
    const PERMISSION: (&str, Retry, bool) = ("permission", Retry::Never, false);
    const REFUSAL: (&str, Retry, bool) = ("ERR", Retry::Never, false);
    const UNKNOWN: (&str, Retry, bool) = ("ERR", Retry::Later, true);

    const OFFICIAL: [Official; 30] = [
        (-1, "SYSTEMERROR", UNKNOWN),
        (-2, "RUNTIMEINCONSISTENCY", UNKNOWN),
        (-3, "DATAINCONSISTENCY", UNKNOWN),
        (-4, "CONNECTIONLOSS", UNKNOWN),
        (-5, "MARSHALLINGERROR", REFUSAL),
        (-6, "UNIMPLEMENTED", ("version", Retry::Never, false)),
        (-7, "OPERATIONTIMEOUT", UNKNOWN),
        (-8, "BADARGUMENTS", REFUSAL),
        (-12, "UNKNOWNSESSION", UNKNOWN),
        (-13, "NEWCONFIGNOQUORUM", UNKNOWN),
        (-14, "RECONFIGINPROGRESS", UNKNOWN),
        (-100, "APIERROR", UNKNOWN),
        (-101, "NONODE", CONFLICT),
        (-102, "NOAUTH", PERMISSION),
        (-103, "BADVERSION", CONFLICT),
        (-108, "NOCHILDRENFOREPHEMERALS", REFUSAL),
        (-110, "NODEEXISTS", CONFLICT),
        (-111, "NOTEMPTY", UNKNOWN),
        (-113, "INVALIDCALLBACK", UNKNOWN),
        (-114, "INVALIDACL", REFUSAL),
        (-115, "AUTHFAILED", PERMISSION),
        (-118, "SESSIONMOVED", UNKNOWN),
        (-119, "NOTREADONLY", ("no-leader", Retry::Later, false)),
        (-120, "EPHEMERALONLOCALSESSION", UNKNOWN),
        (-121, "NOWATCHER", UNKNOWN),
        (-122, "REQUESTTIMEOUT", UNKNOWN),
        (-123, "RECONFIGDISABLED", UNKNOWN),
        (-124, "SESSIONCLOSEDREQUIRESASLAUTH", PERMISSION),
        (-125, "QUOTAEXCEEDED", ("no-space", Retry::Later, false)),
        (-127, "THROTTLEDOP", ("overload", Retry::Later, false)),
    ];

    /// Fails if a code of the server has the wrong meaning, or counts as the end of a session.
    #[test]
    fn each_code_of_the_server_has_its_meaning() {
        for (code, name, meaning) in OFFICIAL {
            let Trouble::Failed(failure) = trouble(&Error::of_code(code)) else {
                panic!("{name} ends the session");
            };
            let found = (failure.code(), failure.retry, failure.executed);
            assert_eq!(found, meaning, "{name}");
        }
        // This is the code of `SESSIONEXPIRED`.
        let expired = trouble(&Error::of_code(-112));
        assert!(matches!(expired, Trouble::Ended), "{expired:?}");
    }
}
