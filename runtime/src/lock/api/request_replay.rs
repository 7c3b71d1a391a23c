//! Requests of `replay` calls, whose result the store keeps for later calls.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::request::LockRequest;
use crate::error::LockError;
use crate::lock::call::replay::fingerprint;

impl LockRequest {
    /// Sets the fingerprint of this call's parameters, such as the cart of an order.
    /// [`run_replayed`](Self::run_replayed) uses it: a kept result answers only a call with the
    /// same fingerprint. A call with another fingerprint is refused with [`LockError::Mismatch`].
    /// Default: none, so that only the key counts.
    ///
    /// The fingerprint is the SHA-256 of the value's JSON. The order of a map is ignored, and `1.0`
    /// equals `1`. The order of a list counts, so a `HashSet` has no fixed fingerprint: sort it
    /// first.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let (ttl, day) = (Duration::from_secs(10), Duration::from_secs(24 * 60 * 60));
    /// let order = |cart: &'static str| {
    ///     let request = pool.lock("order:42").ttl(ttl).fingerprint(cart);
    ///     request.run_replayed(day, async move { Ok::<_, LockError>(cart.len()) })
    /// };
    /// assert_eq!(order("kettle").await??, 6);
    /// assert!(order("toaster").await.unwrap_err().is_mismatch());
    /// # Ok(()) }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "replay")))]
    pub fn fingerprint(mut self, value: &(impl Serialize + ?Sized)) -> Self {
        self.settings.fingerprint = Some(Box::new(fingerprint(value)));
        self
    }

    /// Like [`run`](Self::run), but keeps the value of `Ok` beside the lock for `replay`, from 1 ms
    /// to 30 days. A later call of this method for the key returns `Ok` with the same value, after
    /// one round trip like that of an acquire. The later call's body does not run. While the first
    /// call runs, a second call is refused, or waits and then gets the value.
    ///
    /// The value is stored as JSON in the step that releases the lock, and only if the store still
    /// has the lock. Nothing is kept after `Err`, a panic or a loss, or if this future is dropped.
    /// A value above [`replay_limit`](crate::LockPoolBuilder::replay_limit) is returned but not
    /// kept. The same applies to a value that cannot be read back from its JSON. Each annotated
    /// function has separate results, even for the same key.
    /// [`LockPool::forget`](crate::LockPool::forget) removes all results of a key. Calls without
    /// `replay` for the same key take the lock as usual.
    ///
    /// If a process dies after the body has committed its work, but before the release, no result
    /// is kept. The next call then runs its body. So let a unique key in the database be the final
    /// check.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let (ttl, day) = (Duration::from_secs(10), Duration::from_secs(24 * 60 * 60));
    /// let order = async { Ok::<_, LockError>("order 7".to_owned()) };
    /// let first = pool.lock("click:42").ttl(ttl).run_replayed(day, order).await??;
    ///
    /// let order = async { unreachable!("the first click is done") };
    /// let second: Result<String, LockError> =
    ///     pool.lock("click:42").ttl(ttl).run_replayed(day, order).await?;
    /// assert_eq!(second?, first);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run), and
    /// - [`LockError::Mismatch`] if the result belongs to a call with another
    ///   [`fingerprint`](Self::fingerprint).
    /// - [`LockError::Config`] for an invalid `replay`, a share, several keys,
    ///   [`reentrant`](Self::reentrant), or a kept value of another type. Also on `redlock://`,
    ///   `etcd://` and `zookeeper://`.
    #[cfg_attr(docsrs, doc(cfg(feature = "replay")))]
    pub async fn run_replayed<T, E, F>(
        mut self,
        replay: Duration,
        body: F,
    ) -> Result<Result<T, E>, LockError>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<T, E>>,
    {
        self.settings.replay = Some(replay);
        let mut call = self.call();
        call.run_replaying(pin!(Some(body)), || {}).await
    }
}
