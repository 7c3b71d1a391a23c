//! Scopes. A scope sets the pool for one future, and for tasks that inherit the scope.

use std::future::Future;

use super::LockPool;

tokio::task_local! {
    /// Pool of the current scope. `None` in a task that `leasehold::spawn` started outside of all
    /// scopes. Not set in any other code outside of all scopes.
    static SCOPED: Option<LockPool>;
}

impl LockPool {
    /// Runs `future` with this pool instead of the installed one, for example in a test or for one
    /// tenant.
    ///
    /// With a separate `memory://` pool for each test, tests with the same keys can run at the same
    /// time:
    ///
    /// ```
    /// use leasehold::{LockError, LockPool, distributed_lock};
    ///
    /// #[distributed_lock(key = "order:<id>", ttl = "10s")]
    /// async fn create_order(id: u64) -> Result<u64, LockError> {
    ///     Ok(id)
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// assert_eq!(pool.scope(create_order(42)).await, Ok(42));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The scope belongs to the future, not to the thread. A task that the future starts with
    /// `tokio::spawn` is outside of the scope, and uses the installed pool if there is one. A task
    /// started with [`leasehold::spawn`](crate::spawn) keeps the scope. If something else runs a
    /// future (a `JoinSet`, `spawn_local`, `spawn_blocking`, a thread), give this future a separate
    /// scope. The future that `scope` returns does not borrow the pool, so it can move to another
    /// task or thread:
    ///
    /// ```
    /// # use leasehold::{LockError, LockPool, distributed_lock};
    /// # use tokio::runtime::Handle;
    /// # use tokio::task::{JoinSet, spawn_blocking};
    /// # #[distributed_lock(key = "order:<id>", ttl = "10s")]
    /// # async fn create_order(id: u64) -> Result<u64, LockError> {
    /// #     Ok(id)
    /// # }
    /// async fn create_orders() -> Result<(), LockError> {
    ///     let pool = leasehold::pool()?; // that of the scope, else the installed one
    ///     let mut orders = JoinSet::new();
    ///     for id in 1..=3 {
    ///         orders.spawn(pool.scope(create_order(id)));
    ///     }
    ///     let (runtime, order) = (Handle::current(), pool.scope(create_order(4)));
    ///     orders.spawn_blocking(move || runtime.block_on(order));
    ///     for order in orders.join_all().await {
    ///         order?;
    ///     }
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), LockError> {
    /// # let pool = LockPool::connect("memory://").await?;
    /// pool.scope(create_orders()).await
    /// # }
    /// ```
    ///
    /// Cancel safe: the returned future only polls `future`. When the returned future is dropped,
    /// it drops `future` inside the scope.
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        SCOPED.scope(Some(self.clone()), future)
    }
}

impl LockPool {
    /// Runs `work` on this thread with this pool instead of the installed one. Like
    /// [`scope`](Self::scope), but for functions that are not async, for example in a test with
    /// [`spawn_blocking`](tokio::task::spawn_blocking). Threads that `work` starts are outside of
    /// the scope.
    ///
    /// ```
    /// use leasehold::{LockError, LockPool, distributed_lock};
    ///
    /// #[distributed_lock(key = "report:<day>", ttl = "10s", watchdog)]
    /// fn write_report(day: u32) -> Result<u32, LockError> {
    ///     Ok(day)
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let report = move || pool.scope_blocking(|| write_report(7));
    /// assert_eq!(tokio::task::spawn_blocking(report).await.unwrap(), Ok(7));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If `work` panics.
    pub fn scope_blocking<T>(&self, work: impl FnOnce() -> T) -> T {
        SCOPED.sync_scope(Some(self.clone()), work)
    }
}

/// Wraps the future of a new task, so that the task keeps the current scope.
pub(crate) fn taken_along<F: Future>(future: F) -> impl Future<Output = F::Output> {
    SCOPED.scope(scoped(), future)
}

/// Returns the pool of the innermost scope. `None` outside of all scopes.
pub(super) fn scoped() -> Option<LockPool> {
    SCOPED.try_with(Option::clone).ok().flatten()
}
