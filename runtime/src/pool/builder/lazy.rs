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
    /// This method checks the URL and the options, as far as that needs no server. Calls before the
    /// first connection behave as during an outage. A call with `wait` waits for the connection. A
    /// call without `wait` fails at once with [`LockError::Unavailable`]. The error has the code
    /// `connecting` until the first attempt has ended, and then the code of the failed attempt.
    /// [`ready`](LockPool::ready) fails until the pool is connected.
    ///
    /// A failed attempt is repeated after 25 ms. The pauses after later attempts grow to 200 ms,
    /// and in a long outage to 1 s. If the server refuses the login, or does not fit the settings,
    /// the pool tries again once a second. The first such failure is logged, and the errors of
    /// calls contain its text.
    ///
    /// This method blocks until a thread has started, which usually takes less than a millisecond.
    /// A `memory://` pool is connected at once.
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

/// Returns a future that completes with the store at once. A store on a server then connects in the
/// background.
fn at_once(connection: &Connection) -> Connecting {
    let (target, options) = (connection.target.clone(), connection.options.clone());
    #[cfg(feature = "__remote")]
    if !target.is_local() {
        return crate::store::lazy::connect(target, options);
    }
    target.connect(options)
}
