//! Holders that simulate other processes.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::kit::Kit;
use super::line::Line;
use crate::base::clock::Clock;
use crate::error::LockError;
use crate::fence::Fence;
use crate::lock::api::request::LockRequest;
use crate::lock::call::guard::LockGuard;

const DEFAULT_TTL: Duration = Duration::from_secs(10);

/// Simulated process that will take a lock; see [`Kit::hold`]. Await this value to take the lock.
///
/// ```
/// use std::time::Duration;
///
/// use leasehold::testing::Kit;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let kit = Kit::new();
/// let reader = kit.hold("catalog").shared().await;
/// let worker = kit.hold("report").permits(3).await;
/// let brief = kit.hold("order:42").releases_after(Duration::from_secs(2)).await;
/// # drop((reader, worker, brief));
/// # }
/// ```
#[derive(Clone)]
#[must_use = "the lock is taken when this is awaited"]
pub struct Hold {
    kit: Kit,
    key: String,
    at: &'static Location<'static>,
    ttl: Duration,
    wait: Duration,
    share: Option<Share>,
    releases_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
enum Share {
    Reader,
    Permit(u32),
}

impl Hold {
    pub(super) fn new(kit: Kit, key: String, at: &'static Location<'static>) -> Self {
        Self {
            kit,
            key,
            at,
            ttl: DEFAULT_TTL,
            wait: Duration::ZERO,
            share: None,
            releases_after: None,
        }
    }

    /// Takes a share of the lock, like `shared` in the attribute. Any number of holders can have a
    /// share at the same time.
    ///
    /// ```
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// let (_one, _two) = (kit.hold("catalog").shared().await, kit.hold("catalog").shared().await);
    /// # }
    /// ```
    pub fn shared(mut self) -> Self {
        self.share = Some(Share::Reader);
        self
    }

    /// Takes one of `permits` permits, like `permits` in the attribute. All holders of a key should
    /// give the same number.
    ///
    /// ```
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// let (_one, _two) = (kit.hold("report").permits(2).await, kit.hold("report").permits(2).await);
    /// # }
    /// ```
    pub fn permits(mut self, permits: u32) -> Self {
        self.share = Some(Share::Permit(permits));
        self
    }

    /// Sets the ttl of the holder's lease. Default 10 s. A watchdog renews the lease, so the ttl
    /// matters only after [`Held::expire`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// let other = kit.hold("order:42").ttl(Duration::from_secs(30)).await;
    /// # drop(other);
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Lets the holder queue for the lock for up to this long. Default zero: the lock must be free.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// let _first = kit.hold("order:42").releases_after(Duration::from_secs(1)).await;
    /// let _second = kit.hold("order:42").wait(Duration::from_secs(5)).await;
    /// # }
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Releases the lock automatically when this time has passed since the grant. Default: never.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// let other = kit.hold("order:42").releases_after(Duration::from_secs(2)).await;
    /// let request = kit.pool().lock("order:42").ttl(Duration::from_secs(10));
    /// assert!(request.wait(Duration::from_secs(5)).acquire().await.is_ok());
    /// # drop(other);
    /// # }
    /// ```
    pub fn releases_after(mut self, time: Duration) -> Self {
        self.releases_after = Some(time);
        self
    }

    async fn take(self) -> Held {
        let taken = async {
            let (pool, line) = self.kit.other_pool().await?;
            let request = LockRequest::new(pool, vec![self.key.clone()], self.at);
            let request = request.ttl(self.ttl).wait(self.wait).watchdog();
            let request = match self.share {
                None => request,
                Some(Share::Reader) => request.shared(),
                Some(Share::Permit(permits)) => request.permits(permits),
            };
            Ok((request.acquire().await?, line))
        };
        let (guard, line) = match taken.await {
            Ok(taken) => taken,
            // `Kit::hold` documents this panic: a test cannot continue without the requested lock.
            Err::<_, LockError>(error) => panic!(
                "`kit.hold(\"{key}\")` at {at} did not get the lock: {error}\n{history}",
                key = self.key,
                at = self.at,
                history = self.kit.history().of(&self.key),
            ),
        };
        Held::new(guard, line, self.kit.clock(), self.releases_after)
    }
}

impl IntoFuture for Hold {
    type Output = Held;
    type IntoFuture = Pin<Box<dyn Future<Output = Held> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.take())
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("key", &self.key)
            .field("share", &self.share)
            .field("releases_after", &self.releases_after)
            .finish_non_exhaustive()
    }
}

/// A lock held by a simulated process; see [`Kit::hold`]. Dropping this value releases the lock, as
/// if the process's call had ended. [`expire`](Self::expire) simulates the death of the process.
///
/// ```
/// # use leasehold::testing::Kit;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let kit = Kit::new();
/// drop(kit.hold("order:42").await);
/// let again = kit.hold("order:42").await;
/// # drop(again);
/// # }
/// ```
#[must_use = "the lock is released when this is dropped"]
pub struct Held {
    key: String,
    fence: Option<Fence>,
    /// None once the release of the lock has begun.
    guard: Arc<Mutex<Option<LockGuard>>>,
    line: Arc<Line>,
    clock: Clock,
    /// Task that releases the lock after the time set by `releases_after`.
    release: Option<JoinHandle<()>>,
}

impl Held {
    fn new(
        guard: LockGuard,
        line: Arc<Line>,
        clock: Clock,
        releases_after: Option<Duration>,
    ) -> Self {
        let (key, fence) = (guard.key().to_owned(), guard.fence());
        let guard = Arc::new(Mutex::new(Some(guard)));
        let release = releases_after.map(|time| {
            let guard = Arc::clone(&guard);
            tokio::spawn(async move {
                tokio::time::sleep(time).await;
                if let Some(guard) = taken(&guard) {
                    // The release fails only for a lost lease. Nothing is left to release then.
                    let _ = guard.release().await;
                }
            })
        });
        Self {
            key,
            fence,
            guard,
            line,
            clock,
            release,
        }
    }

    /// Releases the lock. The lock is free when this method returns, unless a server has not
    /// answered in time. If `releases_after` has already begun the release, only waits for its end.
    ///
    /// Cancel safe: after the first poll, the release continues even if the future is dropped.
    ///
    /// ```
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// kit.hold("order:42").await.release().await;
    /// let again = kit.hold("order:42").await;
    /// # drop(again);
    /// # }
    /// ```
    pub async fn release(mut self) {
        if let Some(guard) = taken(&self.guard) {
            // The release fails only for a lost lease. Nothing is left to release then.
            let _ = guard.release().await;
        } else if let Some(release) = self.release.take() {
            // An error means that the task has panicked. Only a bug in the kit could cause that.
            let _ = release.await;
        }
    }

    /// Simulates the death of the process, which then neither renews nor releases the lock. The
    /// store keeps the lock for the rest of its ttl ([`Hold::ttl`]).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// kit.hold("order:42").await.expire();
    /// let request = || kit.pool().lock("order:42").ttl(Duration::from_secs(10));
    /// assert!(request().acquire().await.unwrap_err().is_contention());
    /// tokio::time::sleep(Duration::from_secs(10)).await;
    /// assert!(request().acquire().await.is_ok());
    /// # }
    /// ```
    pub fn expire(self) {
        self.line.die(self.clock.now());
    }

    /// Returns the key without its namespace.
    ///
    /// ```
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// assert_eq!(Kit::new().hold("order:42").await.key(), "order:42");
    /// # }
    /// ```
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the fence of the acquisition, if the store has fences. The kit's pool gets a greater
    /// fence when it takes the lock later.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let kit = Kit::new();
    /// let other = kit.hold("order:42").await;
    /// let earlier = other.fence();
    /// other.release().await;
    /// let guard = kit.pool().lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
    /// assert!(earlier < guard.fence());
    /// # Ok(()) }
    /// ```
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(taken(&self.guard));
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("key", &self.key)
            .field("fence", &self.fence)
            .finish_non_exhaustive()
    }
}

fn taken(guard: &Mutex<Option<LockGuard>>) -> Option<LockGuard> {
    guard.lock().unwrap_or_else(PoisonError::into_inner).take()
}
