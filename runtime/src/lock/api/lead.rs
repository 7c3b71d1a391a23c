//! Leadership: one process at a time runs a body. If that process stops, another one takes over.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;

use super::request::LockRequest;
use crate::base::clock::Clock;
use crate::base::jitter::Jitter;
use crate::base::seeded::seeded;
use crate::base::{codes, reporter};
use crate::engine::core::ticket::Share;
use crate::engine::driver::command::Command;
use crate::error::LockError;
use crate::lock::call::guard::LockHandle;
use crate::lock::take::settings::Beat;
use crate::pool::LockPool;

/// Mean pause after the first failed try to take the lock. Each further failed try doubles the
/// mean, up to `LONGEST_PAUSE`.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// Longest mean pause. The jitter adds or subtracts at most half of the mean.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl LockRequest {
    /// Waits until this process is the leader, which means that it has the lock, and then runs
    /// `body`. Returns the value of the body. Use this for work that one of many processes does all
    /// the time, such as polling a queue.
    ///
    /// The lease is renewed as with [`watchdog`](Self::watchdog). If the lease is lost, the body is
    /// dropped at its next poll, and the call waits for the lock again. If the body returns after
    /// the loss, for example because `lock.check()?` fails, its value is dropped, and the call also
    /// waits again. So the body can begin several times, each time with the handle of a new lease.
    /// Let the resource check the [`fence`](LockHandle::fence), so that it refuses late writes of
    /// an earlier leader.
    ///
    /// The call waits without limit. While the store is unavailable, or too many calls of the
    /// process queue for the key, the call tries again after about 100 ms. Later pauses grow to
    /// about 2 s. The first of several failed tries in a row is logged as `leader-retries`.
    ///
    /// A [shutdown](crate::LockPool::shutdown) of the pool drops the body, and the next process
    /// leads at once. If the leader dies, the next process leads when the ttl is over, or, on etcd
    /// and ZooKeeper, when the leader's session has ended. [`LockPool::inspect`] shows the leader.
    /// With [`max_hold`](Self::max_hold), the leader loses the lock after that time, and the next
    /// process leads.
    ///
    /// Cancel safe: if the future is dropped, the body is dropped, and the lock is released.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let request = pool.lock("leader:billing").ttl(Duration::from_secs(10));
    /// let bills = request.lead(|lock| async move {
    ///     println!("leading with fence {:?}", lock.fence());
    ///     // … a leader usually works in a loop …
    ///     3
    /// });
    /// assert_eq!(bills.await?, 3);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`LockError::ShuttingDown`] when the pool shuts down.
    /// - [`LockError::Config`] for invalid settings and for options that contradict leadership. A
    ///   [`wait`](Self::wait) is refused because a leader waits without limit.
    ///   [`shared`](Self::shared) and [`permits`](Self::permits) are refused because there is one
    ///   leader, and `fingerprint` because no result is kept. [`reentrant`](Self::reentrant) is
    ///   refused because a nested call cannot take again a lock that its enclosing call has lost.
    /// - [`LockError::InvalidKey`], and [`LockError::WouldDeadlock`] if this call is nested in a
    ///   body that holds the key.
    /// - [`LockError::Unavailable`] only if the pool's engine has stopped.
    ///
    /// # Panics
    ///
    /// If the body panics. The panic continues after the release.
    pub async fn lead<F, Fut>(mut self, mut body: F) -> Result<Fut::Output, LockError>
    where
        F: FnMut(LockHandle) -> Fut,
        Fut: Future,
    {
        self.check_lead()?;
        self.settings.watchdog = self.settings.watchdog.or(Some(Beat::Default));
        self.settings.wait = Some(Duration::MAX);
        self.settings.leads = true;
        if seeded!(TwoLeaders) {
            self.settings.share = Some(Share::Permit(2));
        }
        let mut pauses = Pauses::new(self.pool.engine().clock());
        loop {
            let mut led = false;
            let begun = |lock| {
                led = true;
                body(lock)
            };
            let error = match self.clone().term(begun).await {
                Ok(value) => return value.ok_or(LockError::ShuttingDown),
                Err(error) => error,
            };
            if led && error.is_lost() {
                pauses.reset();
            } else {
                self.pause_after(error, &mut pauses).await?;
            }
        }
    }

    /// Refuses options that contradict leadership.
    fn check_lead(&self) -> Result<(), LockError> {
        let settings = &self.settings;
        for (set, option, why) in [
            (
                settings.wait.is_some(),
                "wait",
                "a call of `lead` waits without limit",
            ),
            (
                settings.share.is_some(),
                "shared` and `permits",
                "there is one leader",
            ),
            (
                settings.reentrant,
                "reentrant",
                "a lock lost by an enclosing call cannot be taken again inside that call",
            ),
            (
                settings.fingerprint.is_some(),
                "fingerprint",
                "no result is kept",
            ),
        ] {
            if set {
                return Err(LockError::config(format!(
                    "`lead` cannot be combined with `{option}`: {why}; leave it out"
                )));
            }
        }
        Ok(())
    }

    /// Takes the lock and runs the body once. Returns none if a shutdown of the pool ended the
    /// body.
    async fn term<F, Fut>(self, body: F) -> Result<Option<Fut::Output>, LockError>
    where
        F: FnOnce(LockHandle) -> Fut,
        Fut: Future,
    {
        let pool = self.pool.clone();
        let mut call = self.call();
        let lock = call.handle();
        let body = async move { before(pool.shutdown_begins(), body(lock)).await };
        call.run(pin!(Some(body))).await
    }

    /// Pauses after a failed try to take the lock. Returns the error if no further try can succeed.
    async fn pause_after(&self, error: LockError, pauses: &mut Pauses) -> Result<(), LockError> {
        let is_temporary = error.is_lost()
            || error.is_contention()
            || matches!(error, LockError::Unavailable { .. }) && !self.pool.engine().has_stopped();
        if !is_temporary || seeded!(LeaderGivesUp) {
            return Err(error);
        }
        if pauses.are_new() {
            let at = self.at;
            reporter::log(move || {
                tracing::warn!(
                    code = codes::LEADER_RETRIES,
                    %at,
                    %error,
                    "a call of `lead` could not take its lock; trying again"
                );
            });
        }
        sleep(&self.pool, pauses.next()).await;
        Ok(())
    }
}

/// The growing pauses between failed tries.
struct Pauses {
    mean: Duration,
    jitter: Jitter,
}

impl Pauses {
    fn new(clock: Clock) -> Self {
        // Processes in containers may all have the process id 1, but do not start at the same
        // nanosecond.
        let seed = clock.now().as_nanos() ^ u64::from(std::process::id()).rotate_left(32);
        Self {
            mean: SHORTEST_PAUSE,
            jitter: Jitter::new(seed),
        }
    }

    fn reset(&mut self) {
        self.mean = SHORTEST_PAUSE;
    }

    fn are_new(&self) -> bool {
        self.mean == SHORTEST_PAUSE
    }

    fn next(&mut self) -> Duration {
        let pause = self.jitter.around(self.mean);
        self.mean = LONGEST_PAUSE.min(self.mean * 2);
        pause
    }
}

/// Sleeps with the engine's timer, which works under any executor. A shutdown of the pool ends the
/// sleep early.
async fn sleep(pool: &LockPool, time: Duration) {
    let engine = pool.engine();
    let (caller, mut woken) = oneshot::channel();
    let at = engine.clock().now() + time;
    // An error needs no handling: a stopped engine drops the sender `caller`, which ends the sleep.
    let _ = engine.send(Command::Wake { at, caller });
    before(
        pool.shutdown_begins(),
        poll_fn(|cx| Pin::new(&mut woken).poll(cx)),
    )
    .await;
}

/// Runs `work`. Returns none if `end` completes first.
async fn before<T>(end: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    let (mut end, mut work) = (pin!(end), pin!(work));
    poll_fn(|cx| {
        if end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        work.as_mut().poll(cx).map(Some)
    })
    .await
}
