//! Requests and guards for threads that block instead of awaiting.

use std::panic::Location;

use super::request::LockRequest;
use crate::error::LockError;
use crate::lock::call::guard::LockGuard;
use crate::lock::nest::call_site::At;
use crate::lock::take::blocking::{Parks, park};

impl LockRequest {
    /// Like [`acquire`](Self::acquire), but parks the calling thread until the lock is granted. For
    /// code that is not async: `main`, a thread without a runtime, a job of rayon, or
    /// [`spawn_blocking`](tokio::task::spawn_blocking).
    ///
    /// The engine's own thread renews the lease and wakes the caller. So the call also works on a
    /// thread of a tokio runtime, even if the runtime has only that thread. But the other tasks of
    /// that thread cannot run while it is parked. If one of them holds the lock, it cannot release
    /// the lock. This call then gets the lock when that task's lease ends, or fails when its own
    /// [`wait`](Self::wait) is over. Only a watchdog keeps that lease alive. The first call of the
    /// process that parks a runtime's thread is logged as `worker-blocked`, with its `file:line`.
    /// [`block_in_place`](tokio::task::block_in_place) moves the other tasks to another thread.
    ///
    /// A parked call cannot be cancelled, so give it a `wait` that the thread can afford.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let work = tokio::task::spawn_blocking(move || {
    ///     let guard = pool.lock("report:7").ttl(Duration::from_secs(10)).acquire_blocking()?;
    ///     println!("fence {:?}", guard.fence());
    ///     guard.release_blocking()
    /// });
    /// work.await.unwrap()
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire). [`LockError::WouldDeadlock`] also if this call is
    /// nested, and another branch of the enclosing body has [entered](Self::reentrant) the lock.
    /// [`LockError::Config`] also on a thread whose runtime runs the pool's engine
    /// ([`on_current_runtime`](crate::LockPoolBuilder::on_current_runtime)).
    pub fn acquire_blocking(mut self) -> Result<LockGuard, LockError> {
        let parks = Parks::here(self.at);
        self.settings.parks = Some(parks);
        park(parks, self.acquire())
    }

    /// Like [`run`](Self::run), for a body that is not async. Parks the calling thread until the
    /// lock is granted, like [`acquire_blocking`](Self::acquire_blocking), and then runs `body` on
    /// the same thread.
    ///
    /// A running body cannot be dropped. If the lease is lost while the body runs, the body
    /// continues to its end, and its value is dropped. So use a [`watchdog`](Self::watchdog), or a
    /// ttl that is longer than the work. Before each step that must not happen without the lock,
    /// call [`is_held`](crate::is_held()). Or use [`acquire_blocking`](Self::acquire_blocking), and
    /// call the guard's `check`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let work = tokio::task::spawn_blocking(move || {
    ///     let request = pool.lock("sum").ttl(Duration::from_secs(10)).watchdog();
    ///     assert_eq!(request.run_blocking(|| 1 + 1)?, 2);
    ///     Ok(())
    /// });
    /// work.await.unwrap()
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`acquire_blocking`](Self::acquire_blocking), and [`LockError::Lost`] if the
    /// lease was lost before the body's end. If the body had begun, it has run to its end.
    ///
    /// # Panics
    ///
    /// If the body panics. The panic continues after the release.
    pub fn run_blocking<T>(self, body: impl FnOnce() -> T) -> Result<T, LockError> {
        self.call().run_blocking(body)
    }
}

impl LockGuard {
    /// Like [`release`](Self::release), but parks the calling thread until the store has answered,
    /// for at most a tenth of the ttl and at most 1 s.
    /// [`acquire_blocking`](LockRequest::acquire_blocking) describes the effect on a thread of a
    /// runtime.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let work = tokio::task::spawn_blocking(move || {
    ///     let ttl = Duration::from_secs(10);
    ///     let guard = pool.lock("report:7").ttl(ttl).acquire_blocking()?;
    ///     guard.release_blocking()?;
    ///     pool.lock("report:7").ttl(ttl).run_blocking(|| ()) // it is free again
    /// });
    /// work.await.unwrap()
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`release`](Self::release). [`LockError::Config`] on a thread whose runtime
    /// runs the pool's engine. Even then, the lock is released.
    #[track_caller]
    pub fn release_blocking(self) -> Result<(), LockError> {
        let parks = Parks::here(At::Call(Location::caller()));
        self.held.can_park(parks)?;
        park(parks, self.release())
    }
}
