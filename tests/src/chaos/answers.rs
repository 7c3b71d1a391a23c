//! Calls with `replay`, and the notes about their answers.

use std::sync::Arc;

use leasehold::__test::now;
use leasehold::{LockError, LockHandle, distributed_lock, watch_replays};
use serde::{Deserialize, Serialize};

use super::body;
use super::errand::Errand;
use super::job::Work;
use crate::oracle::Note;

/// The result of a body. The store keeps this result, and later calls return it without running a
/// body.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Answer {
    /// Number of the body that returned this answer.
    ran: u64,
    /// Number of the body that inserted the order into the table. Equals `ran`, unless an earlier
    /// body had already inserted the order (`Work::Order`).
    from: u64,
    /// Fingerprint of the request. Different requests have different fingerprints.
    print: u64,
}

/// Makes the call of `errand`, and writes its answer to the history.
pub(super) async fn make(errand: Errand, watchdog: bool) -> Result<(), LockError> {
    let (desk, key, asked) = (
        Arc::clone(&errand.desk),
        errand.key().to_owned(),
        errand.print,
    );
    let unique = matches!(errand.work, Work::Order { .. });
    let call = async {
        if watchdog {
            Renewed::order(errand).await
        } else {
            Plain::order(errand).await
        }
    };
    let (answer, replayed) = watch_replays(call).await;
    // `None` means that the store has kept an error as the result, which must never happen. The
    // note then names body 0, so that the oracle reports a wrong answer.
    let answer = answer?.unwrap_or(Answer {
        ran: 0,
        from: 0,
        print: asked,
    });
    desk.history.note(&Note::Answered {
        key,
        at: now(),
        ran: (!replayed).then_some(answer.ran),
        from: answer.from,
        asked,
        answers: answer.print,
        unique,
    });
    Ok(())
}

/// Calls without a watchdog. A result is kept under the path of its function. This path does not
/// contain the type, so [`Plain`] and [`Renewed`] share their results.
struct Plain;

impl Plain {
    #[distributed_lock(
        key = "<errand.key()>", ttl = errand.ttl, guard = lock, pool = errand.pool,
        replay = errand.replay(), fingerprint = errand.print
    )]
    async fn order(errand: Errand) -> Result<Option<Answer>, LockError> {
        answer(&errand, lock).await
    }
}

/// Calls with a watchdog.
struct Renewed;

impl Renewed {
    #[distributed_lock(
        key = "<errand.key()>", ttl = errand.ttl, watchdog, guard = lock, pool = errand.pool,
        replay = errand.replay(), fingerprint = errand.print
    )]
    async fn order(errand: Errand) -> Result<Option<Answer>, LockError> {
        answer(&errand, lock).await
    }
}

async fn answer(errand: &Errand, lock: LockHandle) -> Result<Option<Answer>, LockError> {
    let (ran, from) = body::ran(errand, lock).await?;
    let print = errand.print;
    Ok(Some(Answer { ran, from, print }))
}
