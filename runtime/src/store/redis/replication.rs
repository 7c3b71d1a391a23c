//! Waits until replicas have acknowledged a lock.
//!
//! The server answers the command `WAIT` when enough replicas have received all earlier writes of
//! the connection, or its time limit is over. One `WAIT` follows the scripts of a pipeline, so a
//! lock costs no further round trip. `WAIT` blocks its connection, so the store sends nothing until
//! the `WAIT` is answered. Then the store sends all requests that have arrived meanwhile, in one
//! pipeline. So if replicas do not answer, a request is delayed by at most one earlier `WAIT`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redis::{Cmd, Value, cmd};

use super::commands::failure;
use super::server_info::Role;
use crate::error::LockError;
use crate::replicas::Replicas;
use crate::store::options::Options;
use crate::store::{Failure, GiveKind, Op, Reply, Retry};

/// The time limit of a `WAIT` is at most the pool's `io_timeout` divided by this number. That is
/// half of an acquire's patience. So the `WAIT` ends before the store replaces the connection as
/// silent.
const SHARE: u32 = 8;

/// Number of replicas that must acknowledge a write.
#[derive(Debug)]
pub(super) struct ReplicaAcks {
    wanted: Replicas,
    /// The largest number of replicas that the pool or one of its checks has seen at one time.
    /// `Replicas::All` requires this many.
    seen: Arc<AtomicU32>,
    io_timeout: Duration,
}

impl ReplicaAcks {
    /// Returns `None` if the pool needs no acknowledgements.
    pub(super) fn new(options: &Options) -> Option<Self> {
        let wanted = options.replicas?;
        (wanted != Replicas::AtLeast(0)).then(|| Self {
            wanted,
            seen: Arc::clone(&options.replicas_seen),
            io_timeout: options.io_timeout,
        })
    }

    /// Records how many replicas the server of a new connection has.
    pub(super) fn connected(&self, role: Option<Role>) {
        self.see(role.map_or(0, |role| role.replicas));
    }

    fn see(&self, replicas: u32) {
        self.seen.fetch_max(replicas, Ordering::Relaxed);
    }

    fn needed(&self) -> u32 {
        match self.wanted {
            // The number for `all` never shrinks: after the loss of a replica, the remaining ones
            // are not enough.
            Replicas::All => self.seen.load(Ordering::Relaxed).max(1),
            Replicas::AtLeast(count) => count,
        }
    }

    /// True if the store waits for acknowledgements of `op`. A plain removal needs none: if a
    /// fail-over brings the lock back, the lock still expires. For a release that keeps the lock or
    /// stores a result, the store waits, because a fail-over could lose either. The release also
    /// succeeds without acknowledgements, because the call has done its work.
    pub(super) fn concern(op: &Op) -> bool {
        match op {
            Op::Give(give) => give.keep.is_some() || matches!(give.kind, GiveKind::Record(_)),
            Op::Leave { .. } | Op::Forget { .. } => false,
            Op::Take(_) | Op::TakeAll { .. } | Op::Keep { .. } | Op::Adopt { .. } => true,
        }
    }

    /// Returns the `WAIT` command. It waits until enough replicas have received all earlier writes
    /// of the connection. `patience` is the shortest patience of the requests before it.
    pub(super) fn command(&self, patience: Duration) -> Cmd {
        // A limit of 0 would mean to wait forever.
        let limit = self.limit(patience).as_millis().max(1);
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        cmd("WAIT").arg(self.needed()).arg(limit).to_owned()
    }

    fn limit(&self, patience: Duration) -> Duration {
        (patience / 2).min(self.io_timeout / SHARE)
    }

    /// Reads the answer to [`command`](Self::command). Fails if too few replicas acknowledged in
    /// time.
    pub(super) fn judge(&self, answer: Option<Value>) -> Result<(), Failure> {
        let count = match answer {
            Some(Value::Int(count)) => u32::try_from(count).unwrap_or(0),
            Some(Value::ServerError(error)) => {
                return Err(refused(&failure::broken(&error.into())));
            }
            _ => return Err(failure::garbage("an unexpected reply to WAIT")),
        };
        let needed = self.needed();
        self.see(count);
        if count >= needed {
            return Ok(());
        }
        Err(Failure::unavailable(
            "replicas",
            format!(
                "{count} replicas confirmed the lock in time, but {needed} must, so it does not \
                 count; check the replicas, lower the pool's `replicas`, or set a longer \
                 `io_timeout` for slow ones"
            ),
            Retry::Later,
            true,
        ))
    }
}

/// Returns `reply`, or the failure in `verdict` if the reply needs the missing acknowledgements.
///
/// Without the acknowledgements, an acquire fails, although the server has executed it. The engine
/// then removes the lock, or repeats its request with the same token. A reply that another token
/// has the lock needs no acknowledgements.
pub(super) fn counted(reply: Reply, verdict: &Result<(), Failure>) -> Result<Reply, Failure> {
    let Err(failure) = verdict else {
        return Ok(reply);
    };
    match &reply {
        Reply::Acquired { .. } | Reply::AcquiredAll(_) => Err(failure.clone()),
        // Fails the whole renewal, even if the reply also shows that some keys are lost. The next
        // renewal then reports the lost keys.
        Reply::Renewed(kept) if kept.contains(&true) => Err(failure.clone()),
        Reply::RenewedInPart(kept) if kept.contains(&Some(true)) => Err(failure.clone()),
        _ => Ok(reply),
    }
}

/// Returns the failure for a refused `WAIT`. Either the user lacks the permission, or the server
/// has become a replica. The scripts before the `WAIT` have been executed.
fn refused(failure: &Failure) -> Failure {
    let LockError::Unavailable { source } = &failure.error else {
        return failure.clone();
    };
    let retry = match source.code() {
        "NOPERM" => Retry::Never,
        _ => Retry::Later,
    };
    Failure::unavailable(
        source.code(),
        format!("the lock does not count, because waiting for replicas failed: {source}"),
        retry,
        true,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn replica_acks(wanted: Replicas) -> ReplicaAcks {
        let options = Options {
            replicas: Some(wanted),
            ..Options::new(SECOND)
        };
        ReplicaAcks::new(&options).expect("some are wanted")
    }

    #[test]
    fn the_number_of_all_replicas_never_shrinks() {
        let all = replica_acks(Replicas::All);
        assert_eq!(all.needed(), 1, "a server without replicas is not enough");
        let role = |replicas| {
            Some(Role {
                is_master: true,
                replicas,
            })
        };
        all.connected(role(2));
        all.connected(role(1));
        all.connected(None);
        assert_eq!(all.needed(), 2);
        assert!(all.judge(Some(Value::Int(1))).is_err());
        assert!(all.judge(Some(Value::Int(3))).is_ok());
        assert_eq!(all.needed(), 3, "a third was seen");
    }

    #[test]
    fn the_wait_command_has_a_limit_below_its_request() {
        let limit = |patience| {
            let command = replica_acks(Replicas::AtLeast(2)).command(patience);
            let last = command.args_iter().last();
            match last {
                Some(redis::Arg::Simple(text)) => String::from_utf8_lossy(text).into_owned(),
                _ => panic!("WAIT has arguments"),
            }
        };
        assert_eq!(limit(SECOND), "125");
        assert_eq!(limit(Duration::from_millis(10)), "5");
        assert_eq!(limit(Duration::from_millis(1)), "1");
    }

    #[test]
    fn only_granted_locks_need_replicas() {
        let unmet = replica_acks(Replicas::AtLeast(1)).judge(Some(Value::Int(0)));
        let granted = Reply::Acquired {
            fence: None,
            reserved_fences: 0,
            wanted: None,
        };
        assert!(counted(granted.clone(), &unmet).is_err());
        assert!(counted(granted, &Ok(())).is_ok());
        assert!(
            counted(
                Reply::Held {
                    left: None,
                    queued: true,
                    owner: None
                },
                &unmet
            )
            .is_ok()
        );
        assert!(counted(Reply::Renewed(vec![false, true]), &unmet).is_err());
        let in_part = Reply::RenewedInPart(vec![None, Some(true)]);
        assert!(counted(in_part, &unmet).is_err());
        let lost = Reply::Renewed(vec![false]);
        assert_eq!(counted(lost.clone(), &unmet).ok(), Some(lost));
    }
}
