//! Credentials that change while the pool is connected.

use std::future::Future;
use std::path::PathBuf;

use super::LockPoolBuilder;
use crate::store::credentials::{Credentials, Provider, SourceError};

impl LockPoolBuilder {
    /// Sets a function that returns the user and the password. They replace those of the URL.
    ///
    /// The function runs before each connection. If the credentials are
    /// [valid for](Credentials::valid_for) a time, it also runs when three quarters of that time
    /// have passed. On Redis, the pool then logs in again on the open connection. On PostgreSQL and
    /// etcd, the pool replaces the connection. Neither way loses a lease. On ZooKeeper, a login
    /// does not expire, so the time has no effect.
    ///
    /// If the function fails, or the server refuses the login, the pool tries again, at most once a
    /// second. Meanwhile, calls with `wait` wait, and the error of a refused call names the user.
    /// Held locks are renewed over the old connection, if it is still open.
    ///
    /// The function runs on a separate thread with its own tokio runtime, so it may block. At most
    /// 64 calls run at the same time. If one takes longer than the time limit of the connection
    /// attempt (at most the [`io_timeout`](Self::io_timeout)), its future is dropped. A panic
    /// counts as a failure. With Sentinels, the credentials are those of the data servers; for a
    /// cluster and for `redlock://`, they are those of all nodes. `memory://` has no login:
    /// [`connect`](Self::connect) then returns [`LockError::Config`](crate::LockError::Config).
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use leasehold::{Credentials, LockPool};
    ///
    /// # async fn token() -> std::io::Result<String> { Ok(String::new()) }
    /// # async fn example() -> Result<(), leasehold::LockError> {
    /// let pool = LockPool::builder()
    ///     .url("rediss://cache:6379/")
    ///     .credentials(|| async {
    ///         Ok(Credentials::new("app", token().await?).valid_for(Duration::from_secs(900)))
    ///     })
    ///     .connect()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn credentials<F, R>(mut self, provide: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<Credentials, SourceError>> + Send + 'static,
    {
        self.credentials = Some(Provider::new(provide));
        self
    }

    /// Sets a file that contains the password. The pool reads the file before each connection, so
    /// the password can change. Line breaks at the end of the file are ignored. The user is that of
    /// the URL. In a URL, this option is `?password_file=/run/secrets/redis`. The file set here
    /// takes precedence. The file must be a regular file with at most 64 KiB of UTF-8, and not
    /// empty. Otherwise the pool gets no connection, and the error names the file.
    ///
    /// ```no_run
    /// let builder = leasehold::LockPool::builder()
    ///     .url("redis://app@cache:6379/")
    ///     .password_file("/run/secrets/redis");
    /// ```
    pub fn password_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.credentials = Some(Provider::file(path.into()));
        self
    }
}
