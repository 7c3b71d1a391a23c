//! Connecting a pool in the background.

use tokio::task::coop;

use super::connect::Connection;
use super::{LockPool, LockPoolBuilder};
use crate::base::parking::polled;
use crate::engine::driver::thread;
use crate::error::LockError;
use crate::store::Connecting;

impl LockPoolBuilder {
    /// Returns a pool at once, and connects it in the background. The program can start while its
    /// store is away.
    ///
    /// The URL and the options are checked now, as far as that needs no server. Calls before the
    /// first connection behave as during an outage. A call with `wait` waits for the connection. A
    /// call without it fails at once, with [`LockError::Unavailable`] and the code `connecting`.
    /// [`ready`](LockPool::ready) fails until the pool is connected.
    ///
    /// Attempts are repeated after 25 ms, up to 200 ms, and up to a second in a long outage. If the
    /// server refuses the login, or does not fit the settings, the pool tries again once a second.
    /// The first such failure is logged, and calls get its text.
    ///
    /// Blocks for the start of a thread, usually less than a millisecond. A `memory://` pool is
    /// connected at once.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::{LockError, LockPool};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::builder().url("redis://127.0.0.1:1/").connect_lazy()?; // no server
    /// let early = pool.lock("order:42").ttl(Duration::from_secs(10)).acquire().await;
    /// assert!(early.unwrap_err().is_unavailable());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Config`] for an invalid URL or option.
    ///
    /// # Panics
    ///
    /// With [`on_current_runtime`](Self::on_current_runtime), outside of a tokio runtime.
    pub fn connect_lazy(self) -> Result<LockPool, LockError> {
        let target = self.target()?;
        let connection = Connection::new(self, target);
        connection.target.accepts(&connection.options)?;
        let connecting = connection.noting(at_once(&connection));
        let (place, name) = (connection.builder.place, connection.name());
        let (limits, clock) = (connection.limits, connection.options.clock);
        // Blocks only until the engine's thread has started.
        let starting = thread::start(place, name, limits, clock, connecting);
        let engine = polled(coop::unconstrained(starting))?;
        Ok(connection.pool(engine))
    }
}

/// Returns a future that gives the store at once. A store on a server connects in the background
/// after that.
fn at_once(connection: &Connection) -> Connecting {
    let (target, options) = (connection.target.clone(), connection.options.clone());
    #[cfg(feature = "__remote")]
    if !target.is_local() {
        return crate::store::lazy::connect(target, options);
    }
    target.connect(options)
}
