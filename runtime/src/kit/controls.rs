//! Methods by which a test changes the locks of its kit and reads their history.

use std::panic::Location;
use std::time::Duration;

use super::history::History;
use super::hold::Hold;
use super::kit::Kit;
use super::point::Point;
use super::target::SharedStore;

impl Kit {
    /// Simulates another process that takes the lock `key`. The process holds the lock until the
    /// resulting [`Held`](super::Held) is released or dropped. See [`Hold`] for shares, permits
    /// and times.
    ///
    /// The other process has a separate pool and engine on the kit's store. A watchdog renews its
    /// lease. The kit's outages and delays do not affect the other process.
    ///
    /// ```
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// let other = kit.hold("order:42").await;
    /// let tried = || kit.pool().lock("order:42").ttl(std::time::Duration::from_secs(10)).acquire();
    /// assert!(tried().await.unwrap_err().is_contention());
    /// other.release().await;
    /// assert!(tried().await.is_ok());
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If the returned [`Hold`] is awaited and does not get the lock. The message contains the
    /// history of the key. See also [`pool`](Self::pool).
    #[track_caller]
    pub fn hold(&self, key: impl Into<String>) -> Hold {
        Hold::new(self.clone(), key.into(), Location::caller())
    }

    /// Takes the lock `key` away from a call of the kit's pool at `point`. This is the call that
    /// holds the lock now, or else the next call that gets it. The store loses the lock, and the
    /// pool detects the loss.
    ///
    /// A loss happens once. If the call ends before `point`, the loss stays planned for the next
    /// call with this key. Holders created by [`hold`](Self::hold) are not affected.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use leasehold::testing::{Kit, Point};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// kit.lose_when("order:42", Point::AfterPolls(1));
    /// let request = kit.pool().lock("order:42").ttl(Duration::from_secs(10));
    /// let mut steps = 0;
    /// let lost = request.run(async {
    ///     steps += 1;
    ///     tokio::task::yield_now().await;
    ///     steps += 1; // does not run
    /// });
    /// assert!(lost.await.unwrap_err().is_lost());
    /// assert_eq!(steps, 1);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// On a server ([`on`](Self::on)) for every point except [`Point::After`]. See also
    /// [`pool`](Self::pool).
    #[track_caller]
    pub fn lose_when(&self, key: &str, point: Point) {
        let running = self.running();
        let on_server = matches!(running.store, SharedStore::Server(_));
        assert!(
            !on_server || matches!(point, Point::After(_)),
            "`Point::{point:?}` is not supported on a server, because the loss would have to wait \
             for the server's answer; write `Point::After(duration)`, or use `Kit::new()`"
        );
        running.line.lose_when(key, point);
    }

    /// Makes the store unreachable for the kit's pool. New requests fail at once, as if the
    /// connection were refused. Earlier requests that have no answer yet fail as well, although
    /// the store may have carried them out. Held locks last until their leases end.
    ///
    /// A call without `wait` gets [`LockError::Unavailable`][unavailable] at once. Other holders
    /// ([`hold`](Self::hold)) still reach the store.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// kit.store_down();
    /// let request = || kit.pool().lock("order:42").ttl(Duration::from_secs(10));
    /// assert!(request().acquire().await.unwrap_err().is_unavailable());
    /// kit.store_up();
    /// assert!(request().acquire().await.is_ok());
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// See [`pool`](Self::pool).
    ///
    /// [unavailable]: crate::LockError::Unavailable
    #[track_caller]
    pub fn store_down(&self) {
        self.running().line.cut();
    }

    /// Makes the store reachable again after [`store_down`](Self::store_down), and notifies the
    /// engine.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// kit.store_down();
    /// kit.store_up();
    /// let request = kit.pool().lock("order:42").ttl(Duration::from_secs(10));
    /// assert!(request.acquire().await.is_ok());
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// See [`pool`](Self::pool).
    #[track_caller]
    pub fn store_up(&self) {
        self.running().line.restore();
    }

    /// Delays each later answer of the store to the kit's pool by `delay`. The store still carries
    /// out the requests at once. [`Duration::ZERO`] ends the delay for later answers.
    ///
    /// An answer that takes longer than the pool's `io_timeout` is ignored: the call gets
    /// [`LockError::Unavailable`][unavailable], and the engine removes the lock that the request
    /// may have taken.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// kit.delay(Duration::from_millis(300));
    /// let begun = tokio::time::Instant::now();
    /// let request = kit.pool().lock("order:42").ttl(Duration::from_secs(10));
    /// let guard = request.acquire().await.expect("it is slow, and free");
    /// assert!(begun.elapsed() >= Duration::from_millis(300));
    /// # drop(guard);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// See [`pool`](Self::pool).
    ///
    /// [unavailable]: crate::LockError::Unavailable
    #[track_caller]
    pub fn delay(&self, delay: Duration) {
        self.running().line.delay(delay);
    }

    /// Returns the history of the locks so far. It contains the locks of the kit's pool and of the
    /// other holders.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// let request = kit.pool().lock("order:42").ttl(Duration::from_secs(10));
    /// request.run(async {}).await.expect("it is free");
    /// let history = kit.history();
    /// assert!(history.is_exclusive(), "{history}");
    /// assert_eq!((history.grants(), history.releases()), (1, 1));
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// See [`pool`](Self::pool).
    #[track_caller]
    pub fn history(&self) -> History {
        self.running().log.history()
    }
}
