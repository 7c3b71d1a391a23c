//! The pools that annotated functions use: the installed pool of the process, and named pools.

use std::collections::BTreeMap;
use std::env;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use once_cell::sync::OnceCell;

use super::LockPool;
use super::scope::scoped;
use crate::engine::core::drain::ShutdownReport;
use crate::error::LockError;

/// The pool of calls that name no pool and are outside of all scopes. The cell is set once. A pool
/// that no longer takes locks can be replaced inside the cell.
static INSTALLED: OnceCell<RwLock<LockPool>> = OnceCell::new();
static NAMED: Mutex<BTreeMap<String, LockPool>> = Mutex::new(BTreeMap::new());

impl LockPool {
    /// Makes this the pool of all annotated functions that name no other pool. It replaces an
    /// installed pool that no longer takes locks, because its [shutdown](Self::shutdown) has begun
    /// or its engine has stopped. Locks that the former pool still holds stay with that pool.
    ///
    /// ```
    /// use leasehold::{LockError, LockPool};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// LockPool::connect("memory://").await?.install()?;
    /// assert!(leasehold::pool().is_ok());
    ///
    /// let second = LockPool::connect("memory://").await?.install();
    /// assert!(matches!(second, Err(LockError::Config { .. })));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Config`] if another pool is installed and still takes locks.
    pub fn install(&self) -> Result<(), LockError> {
        install(self.clone())
    }

    /// Like [`install`](Self::install), but for annotated functions with `pool = "name"`.
    ///
    /// ```
    /// use leasehold::{LockError, LockPool, distributed_lock};
    ///
    /// #[distributed_lock(key = "item:<sku>", ttl = "10s", pool = "inventory")]
    /// async fn take(sku: &str) -> Result<(), LockError> {
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// LockPool::connect("memory://").await?.install_as("inventory")?;
    /// take("kettle").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Config`] if another pool is installed under this name and still takes locks.
    pub fn install_as(&self, name: &str) -> Result<(), LockError> {
        install_as(name, self.clone())
    }
}

/// Connects to `url` with the defaults, and installs the pool for all annotated functions of the
/// process.
///
/// ```no_run
/// # async fn example() -> Result<(), leasehold::LockError> {
/// leasehold::init("redis://127.0.0.1/").await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`LockError::Config`] for an invalid URL, and if another pool is [installed](LockPool::install)
/// and still takes locks. [`LockError::Unavailable`] if the store cannot be reached within about a
/// second.
pub async fn init(url: &str) -> Result<(), LockError> {
    refuse_second()?;
    LockPool::builder().url(url).connect().await?.install()
}

/// Like [`init`], but returns at once and connects in the background; see
/// [`LockPoolBuilder::connect_lazy`](crate::LockPoolBuilder::connect_lazy).
///
/// ```
/// # fn main() -> Result<(), leasehold::LockError> {
/// leasehold::init_lazy("redis://127.0.0.1/")?; // even if no server runs
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// [`LockError::Config`] for an invalid URL, and if another pool is [installed](LockPool::install)
/// and still takes locks.
pub fn init_lazy(url: &str) -> Result<(), LockError> {
    refuse_second()?;
    LockPool::builder().url(url).connect_lazy()?.install()
}

/// Like [`init`], but configured by the environment: `LEASEHOLD_URL` (required),
/// `LEASEHOLD_NAMESPACE` (default `lock`), `LEASEHOLD_WAIT` (a duration such as `2s`; default `0s`,
/// one try), `LEASEHOLD_PASSWORD_FILE` (see
/// [`LockPoolBuilder::password_file`](crate::LockPoolBuilder::password_file)).
///
/// ```no_run
/// # async fn example() -> Result<(), leasehold::LockError> {
/// // LEASEHOLD_URL=redis://127.0.0.1/ LEASEHOLD_NAMESPACE=shop LEASEHOLD_WAIT=2s
/// leasehold::init_from_env().await?;
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// The errors of [`init`], and [`LockError::Config`] for a missing or invalid variable.
pub async fn init_from_env() -> Result<(), LockError> {
    refuse_second()?;
    let url = variable("LEASEHOLD_URL")?.ok_or_else(|| {
        LockError::config(
            "LEASEHOLD_URL is not set; set it to the lock store, such as redis://127.0.0.1/",
        )
    })?;
    let mut builder = LockPool::builder().url(url);
    if let Some(namespace) = variable("LEASEHOLD_NAMESPACE")? {
        builder = builder.namespace(namespace);
    }
    if let Some(wait) = variable("LEASEHOLD_WAIT")? {
        let wait = humantime::parse_duration(&wait).map_err(|error| {
            LockError::config(format!(
                "LEASEHOLD_WAIT is `{wait}`, which is not a duration such as `2s`: {error}"
            ))
        })?;
        builder = builder.wait(wait);
    }
    if let Some(file) = variable("LEASEHOLD_PASSWORD_FILE")? {
        builder = builder.password_file(file);
    }
    builder.connect().await?.install()
}

/// Shuts down all installed pools, including the named ones, and adds up their reports. The pools
/// share `limit`; see [`LockPool::shutdown`]. Call this at the end of `main`, because a pool's
/// engine ends with the process. If the process ends before a release is sent, the lock stays until
/// its ttl ends.
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// leasehold::init("memory://").await?;
/// // … the service runs and ends …
/// let report = leasehold::shutdown(Duration::from_secs(5)).await;
/// assert_eq!(report.still_held + report.unconfirmed, 0);
/// # Ok(()) }
/// ```
pub async fn shutdown(limit: Duration) -> ShutdownReport {
    let mut pools: Vec<LockPool> = names().values().cloned().collect();
    pools.extend(global());
    // A pool may be installed under several names.
    pools.sort_by_key(LockPool::id);
    pools.dedup_by_key(|pool| pool.id());
    // All shutdowns begin at the same time, so each can use the whole limit.
    let shutdowns: Vec<_> = pools
        .iter()
        .map(|pool| pool.begin_shutdown(limit))
        .collect();
    let mut total = ShutdownReport::default();
    for (pool, begun) in pools.iter().zip(shutdowns) {
        let report = pool.finish_shutdown(begun).await;
        total.released += report.released;
        total.still_held += report.still_held;
        total.unconfirmed += report.unconfirmed;
    }
    total
}

/// Returns the pool that an annotated function without `pool` would use here: the pool of the
/// innermost [`scope`](LockPool::scope), else the installed pool.
///
/// ```
/// # use std::time::Duration;
/// use leasehold::LockError;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// assert_eq!(leasehold::pool().unwrap_err(), LockError::NotInstalled);
///
/// leasehold::init("memory://").await?;
/// let guard = leasehold::pool()?.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// [`LockError::NotInstalled`] if there is neither a scope nor an installed pool.
pub fn pool() -> Result<LockPool, LockError> {
    current()
}

/// Returns the pool for a call that names no pool.
pub(crate) fn current() -> Result<LockPool, LockError> {
    scoped().or_else(global).ok_or(LockError::NotInstalled)
}

/// Returns the pool for a call with `pool = "name"`.
pub(crate) fn named(name: &str) -> Result<LockPool, LockError> {
    names().get(name).cloned().ok_or_else(|| {
        LockError::config(format!(
            "no lock pool is installed as `{name}`; add `pool.install_as(\"{name}\")?;` at the \
             start of the program"
        ))
    })
}

fn install(pool: LockPool) -> Result<(), LockError> {
    let Err((present, pool)) = INSTALLED.try_insert(RwLock::new(pool)) else {
        return Ok(());
    };
    let pool = pool.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut present = present.write().unwrap_or_else(PoisonError::into_inner);
    // Several threads may try to replace an ended pool. The check and the replacement are under one
    // write lock, so only the first thread succeeds.
    let ended = replaced(&mut present, pool).ok_or_else(second)?;
    drop(present);
    // Dropped outside of the write lock, because dropping a pool's last clone sends a command to
    // the pool's engine, which can take time.
    drop(ended);
    Ok(())
}

/// Replaces the pool in `present` by `pool` if the old pool no longer takes locks, and returns the
/// old pool. Otherwise returns none.
fn replaced(present: &mut LockPool, pool: LockPool) -> Option<LockPool> {
    present.has_ended().then(|| mem::replace(present, pool))
}

fn global() -> Option<LockPool> {
    let read = |pool: &'static RwLock<LockPool>| -> RwLockReadGuard<'static, LockPool> {
        pool.read().unwrap_or_else(PoisonError::into_inner)
    };
    INSTALLED.get().map(|pool| read(pool).clone())
}

fn install_as(name: &str, pool: LockPool) -> Result<(), LockError> {
    let mut names = names();
    let ended = match names.get_mut(name) {
        None => names.insert(name.to_owned(), pool),
        Some(present) => Some(replaced(present, pool).ok_or_else(|| second_as(name))?),
    };
    drop(names);
    // Dropped outside of the mutex, because dropping a pool's last clone sends a command to the
    // pool's engine, which can take time.
    drop(ended);
    Ok(())
}

fn refuse_second() -> Result<(), LockError> {
    match global() {
        Some(pool) if !pool.has_ended() => Err(second()),
        _ => Ok(()),
    }
}

fn second() -> LockError {
    LockError::config(
        "a lock pool is already installed; install one at the start of the program, use \
         `install_as` for more, and `pool.scope` in tests",
    )
}

fn second_as(name: &str) -> LockError {
    LockError::config(format!(
        "a lock pool is already installed as `{name}`; install each pool once, or give this one \
         another name"
    ))
}

fn names() -> MutexGuard<'static, BTreeMap<String, LockPool>> {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn variable(name: &str) -> Result<Option<String>, LockError> {
    match env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => {
            Err(LockError::config(format!("{name} is not valid UTF-8")))
        }
    }
}
