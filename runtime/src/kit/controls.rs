//! What a test does to the locks of its kit, and what it is told of them.

use std::panic::Location;
use std::time::Duration;

use super::history::History;
use super::hold::Hold;
use super::kit::Kit;
use super::point::Point;
use super::target::SharedStore;

impl Kit {
    /// Another process takes the lock `key`, and holds it until the [`Held`](super::Held) that this
    /// gives is released or dropped. See [`Hold`] for shares, permits and times.
    ///
    /// The other process has a pool and an engine of its own on the kit's store, with a watchdog.
    /// The kit's outages and delays do not reach it.
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
    /// When it is awaited and the lock is not free, with the history of the key. And as
    /// [`pool`](Self::pool).
    #[track_caller]
    pub fn hold(&self, key: impl Into<String>) -> Hold {
        Hold::new(self.clone(), key.into(), Location::caller())
    }

    /// Takes a lock of the kit's pool away at this point: from the call that holds `key`, or else
    /// the next that does. The store loses the lock, and the engine is told.
    ///
    /// A loss happens once. If the call ends before its point, the loss waits for the next call.
    /// Holders by [`hold`](Self::hold) are not meant.
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
    /// On a server ([`on`](Self::on)) for every point but [`Point::After`]. And as
    /// [`pool`](Self::pool).
    #[track_caller]
    pub fn lose_when(&self, key: &str, point: Point) {
        let running = self.running();
        let on_server = matches!(running.store, SharedStore::Server(_));
        assert!(
            !on_server || matches!(point, Point::After(_)),
            "`Point::{point:?}` is not possible on a server, whose answer the loss would have to wait for; \
             write `Point::After(duration)`, or use `Kit::new()`"
        );
        running.line.lose_when(key, point);
    }

    /// The store cannot be reached any more. Requests fail at once, as those of a connection that
    /// is refused; requests without an answer fail as well, and the store may have carried them
    /// out. Locks that are held live on until their leases end.
    ///
    /// A call that tries once asks again until the pool's `io_timeout`, one second by default,
    /// and then gets [`LockError::Unavailable`][unavailable]: no time at all where time is paused.
    /// Other holders ([`hold`](Self::hold)) still reach the store.
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
    /// As [`pool`](Self::pool).
    ///
    /// [unavailable]: crate::LockError::Unavailable
    #[track_caller]
    pub fn store_down(&self) {
        self.running().line.cut();
    }

    /// The store can be reached again, and the engine is told so. See
    /// [`store_down`](Self::store_down).
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
    /// As [`pool`](Self::pool).
    #[track_caller]
    pub fn store_up(&self) {
        self.running().line.restore();
    }

    /// From now on each answer of the store comes so much later. The store carries the request out
    /// at once. [`Duration::ZERO`] ends the delay for requests to come.
    ///
    /// An answer that takes longer than the pool's `io_timeout` is none: the call gets
    /// [`LockError::Unavailable`][unavailable], and the engine removes what the request may have
    /// set.
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
    /// As [`pool`](Self::pool).
    ///
    /// [unavailable]: crate::LockError::Unavailable
    #[track_caller]
    pub fn delay(&self, delay: Duration) {
        self.running().line.delay(delay);
    }

    /// What happened to the locks so far: to those of the kit's pool, and to those of other
    /// holders.
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
    /// As [`pool`](Self::pool).
    #[track_caller]
    pub fn history(&self) -> History {
        self.running().log.history()
    }
}
