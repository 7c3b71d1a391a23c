//! Failures that the quorum core reports itself.

use super::quorum::majority;
use crate::error::{LockError, StoreError};
use crate::store::{Failure, Retry};

/// Returns the failure of a question on which too few nodes voted. This failure counts as executed,
/// because some nodes may have set the key.
pub(super) fn no_quorum(troubled: usize, nodes: usize, why: &str, retry: Retry) -> Failure {
    let message = format!(
        "{troubled} of {nodes} nodes did not vote, and a lock needs {} votes{why}",
        majority(nodes)
    );
    Failure {
        error: LockError::Unavailable {
            source: StoreError::new("quorum", message),
        },
        retry,
        executed: true,
    }
}

/// Returns the refusal of a share. Independent servers cannot count shares together.
pub(super) fn no_shares() -> Failure {
    Failure {
        error: LockError::config(
            "`shared` and `permits` are not supported by `redlock://`, whose nodes have no common \
             count; use them on a pool with `redis://`",
        ),
        retry: Retry::Never,
        executed: false,
    }
}

pub(super) fn no_results() -> Failure {
    Failure {
        error: LockError::config(
            "`replay` is not supported by `redlock://`, whose nodes keep no common result; use it \
             on a pool with `redis://` or `postgres://`",
        ),
        retry: Retry::Never,
        executed: false,
    }
}

pub(super) fn no_adoption() -> Failure {
    Failure {
        error: LockError::config(
            "a lock of `redlock://` cannot be adopted, because each node would have to change its token in the same step; hand locks \
             over on a pool with `redis://` or `postgres://`",
        ),
        retry: Retry::Never,
        executed: false,
    }
}

/// Returns the failure of a node that may not vote even after a quarantine.
pub(super) fn unfit(why: &str) -> Failure {
    Failure {
        error: LockError::Unavailable {
            source: StoreError::new("unfit", why),
        },
        retry: Retry::Later,
        executed: false,
    }
}
