//! Two processes on one server, each of them of the earlier version or of this version.

use std::time::Duration;

use leasehold::{LockError, LockGuard, LockPool};
use leasehold_tests::earlier_version::{EarlierProcess, Lease, Want};
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::server::Server;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;
use redis::cmd;
use tokio::runtime::{Handle, Runtime};

pub(super) const TTL: Duration = Duration::from_secs(20);
/// Time limit for events that usually come much sooner.
pub(super) const LONG: Duration = Duration::from_secs(30);

/// Mode in which a lock is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum As {
    Alone,
    Reader,
    OneOf(u32),
}

/// A process of one version.
pub(super) enum Side {
    Earlier(EarlierProcess),
    Present(LockPool, Handle),
}

/// A lock held by a process.
pub(super) enum Held {
    Earlier(Want, Lease),
    Present(LockGuard),
}

impl Side {
    /// Takes `key`. Waits for the key for at most `patience`.
    pub(super) fn take(&mut self, key: &str, how: As, patience: Duration) -> Option<Held> {
        match self {
            Self::Earlier(process) => {
                let want = want(key, how);
                let lease = if patience.is_zero() {
                    process.try_take(&want)
                } else {
                    process.take(&want, patience)
                };
                Some(Held::Earlier(want, lease?))
            }
            Self::Present(pool, runtime) => {
                let request = pool.lock(key).ttl(TTL).wait(patience);
                let request = match how {
                    As::Alone => request,
                    As::Reader => request.shared(),
                    As::OneOf(most) => request.permits(most),
                };
                match runtime.block_on(request.acquire()) {
                    Ok(guard) => Some(Held::Present(guard)),
                    Err(LockError::Contended { .. } | LockError::TimedOut { .. }) => None,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    /// Releases the lock. With `keep`, the lock stays locked for this time after its release.
    pub(super) fn release(&mut self, held: Held, keep: Option<Duration>) {
        match (self, held) {
            (Self::Earlier(process), Held::Earlier(want, lease)) => {
                assert!(process.release(&want, &lease.token, keep), "still its own");
            }
            (Self::Present(_, runtime), Held::Present(guard)) => runtime
                .block_on(async {
                    match keep {
                        Some(keep) => guard.release_after(keep).await,
                        None => guard.release().await,
                    }
                })
                .expect("still held"),
            _ => panic!("it is the other's"),
        }
    }
}

impl Held {
    pub(super) fn fence(&self) -> u64 {
        match self {
            Self::Earlier(_, lease) => lease.fence,
            Self::Present(guard) => guard.fence().expect("the store has fences").get(),
        }
    }
}

pub(super) fn want(key: &str, how: As) -> Want {
    let wire = format!("lock:{key}");
    match how {
        As::Alone => Want::alone(&wire, TTL),
        As::Reader => Want::share(&wire, TTL, 0),
        As::OneOf(most) => Want::share(&wire, TTL, most),
    }
}

/// A server and its clients.
pub(super) struct Stage {
    pub(super) server: Server,
    pub(super) probe: RedisProbe,
    pub(super) runtime: Runtime,
}

impl Stage {
    pub(super) fn new() -> Self {
        let server = Server::start();
        Self {
            probe: server.probe(),
            server,
            runtime: Runtime::new().expect("a runtime starts"),
        }
    }

    pub(super) fn earlier(&self) -> EarlierProcess {
        EarlierProcess::connect(&self.server.url(), "lock")
    }

    pub(super) fn present(&self) -> LockPool {
        let pool = LockPool::builder().url(self.server.url());
        let pool = pool.io_timeout(NO_OUTAGE);
        self.runtime.block_on(wait::connected(pool))
    }

    fn side(&self, is_earlier: bool) -> Side {
        if is_earlier {
            Side::Earlier(self.earlier())
        } else {
            Side::Present(self.present(), self.runtime.handle().clone())
        }
    }

    /// Waits until `count` processes are in the queue of `key`.
    pub(super) fn await_queued(&self, key: &str, count: usize) {
        wait::until("they queue", LONG, || self.are_queued(key, count));
    }

    /// True if `count` processes are in the queue of `key`.
    pub(super) fn are_queued(&self, key: &str, count: usize) -> bool {
        /// Length of a record in the queue, in bytes.
        const RECORD: usize = 46;
        let queue = format!("lock:%leasehold:queue:lock:{key}");
        self.probe.run::<usize>(cmd("STRLEN").arg(&queue)) == count * RECORD
    }
}

/// Runs `scene` for each of the four pairs of versions. The output names the versions.
pub(super) fn in_four_directions(scene: fn(&Stage, &mut Side, &mut Side)) {
    for (first, second) in [(true, true), (true, false), (false, true), (false, false)] {
        eprintln!("the first is earlier: {first}; the second is earlier: {second}");
        let stage = Stage::new();
        scene(&stage, &mut stage.side(first), &mut stage.side(second));
    }
}
