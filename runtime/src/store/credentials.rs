//! Credentials that change: the user and the password of each new connection.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io::{self, Read as _};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::LockError;

/// Minimum time between two logins on one connection. Otherwise, credentials with a short validity
/// would flood the server with logins.
const LEAST_FRESH: Duration = Duration::from_secs(1);

/// Maximum number of bytes of a password file.
const LONGEST_FILE: usize = 65_536;

/// Maximum number of simultaneous calls of the program's function.
const MOST_CALLS: usize = 64;

/// The user and the password for connections to a lock store; see
/// [`LockPoolBuilder::credentials`](crate::LockPoolBuilder::credentials). `Debug` shows no
/// password.
///
/// ```
/// # use std::time::Duration;
/// use leasehold::Credentials;
///
/// let token = Credentials::new("app", "secret").valid_for(Duration::from_secs(900));
/// assert!(!format!("{token:?}").contains("secret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// `None` if the user in the URL applies.
    user: Option<String>,
    password: String,
    valid_for: Option<Duration>,
}

impl Credentials {
    /// Returns credentials that do not expire.
    ///
    /// ```
    /// let credentials = leasehold::Credentials::new("app", "secret");
    /// ```
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: Some(user.into()),
            ..Self::of_url_user(password.into())
        }
    }

    /// Sets the time for which the password is valid, counted from now. The pool gets new
    /// credentials after three quarters of this time, but at the earliest after one second.
    /// Default: no end.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let token = leasehold::Credentials::new("app", "secret").valid_for(Duration::from_secs(900));
    /// ```
    #[must_use]
    pub fn valid_for(mut self, valid_for: Duration) -> Self {
        self.valid_for = Some(valid_for);
        self
    }

    /// Returns credentials with this password, for the user in the URL.
    fn of_url_user(password: String) -> Self {
        Self {
            user: None,
            password,
            valid_for: None,
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("valid_for", &self.valid_for)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    pub(crate) fn password(&self) -> &str {
        &self.password
    }

    /// Returns the time after which the pool gets new credentials: three quarters of the validity,
    /// but at least `LEAST_FRESH`. The last quarter is left for failed attempts.
    pub(crate) fn fresh_for(&self) -> Option<Duration> {
        let valid_for = self.valid_for?;
        Some((valid_for / 4 * 3).max(LEAST_FRESH))
    }
}

/// Error returned by the program's function for credentials.
pub(crate) type SourceError = Box<dyn Error + Send + Sync>;

/// Future returned by the program's function for credentials.
pub(crate) type Provided = Pin<Box<dyn Future<Output = Result<Credentials, SourceError>> + Send>>;

/// A function of the program that returns the credentials for the next connection.
#[derive(Clone)]
pub(crate) struct Provider {
    function: Arc<dyn Fn() -> Provided + Send + Sync>,
    calls: Arc<Semaphore>,
}

/// A panic cannot leave the pool's own state half changed, because the function cannot access that
/// state.
impl UnwindSafe for Provider {}
impl RefUnwindSafe for Provider {}

impl Provider {
    pub(crate) fn new<F, R>(provide: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<Credentials, SourceError>> + Send + 'static,
    {
        Self {
            function: Arc::new(move || Box::pin(provide())),
            calls: Arc::new(Semaphore::new(MOST_CALLS)),
        }
    }

    /// Returns a provider that reads the password from a file. The user is the one in the URL.
    pub(crate) fn file(path: PathBuf) -> Self {
        Self::new(move || {
            let path = path.clone();
            async move {
                let shown = path.display();
                let text = text_of(&path).map_err(|error| format!("{shown}: {error}"))?;
                let password = text.trim_end_matches(['\r', '\n']);
                if password.is_empty() {
                    return Err(format!("{shown}: the file is empty").into());
                }
                Ok(Credentials::of_url_user(password.to_owned()))
            }
        })
    }

    /// Runs the program's function on the calling thread. The function may block or panic.
    pub(crate) async fn provide(&self) -> Result<Credentials, SourceError> {
        (self.function)().await
    }

    /// Waits until one more call of the function is permitted. The permit ends when it is dropped.
    /// Each call has a thread, and a blocked call can outlast many attempts to connect.
    pub(crate) async fn permit(&self) -> Result<OwnedSemaphorePermit, SourceError> {
        Ok(Arc::clone(&self.calls).acquire_owned().await?)
    }
}

/// Reads a file, which must be a regular file: a pipe or device could block or never end.
fn text_of(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    file.take(LONGEST_FILE as u64 + 1)
        .read_to_string(&mut text)?;
    if LONGEST_FILE < text.len() {
        return Err(io::Error::other("it is longer than 65,536 bytes"));
    }
    Ok(text)
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").finish_non_exhaustive()
    }
}

/// Refuses credentials for a store without a login.
pub(crate) fn refuse(given: bool) -> Result<(), LockError> {
    if !given {
        return Ok(());
    }
    Err(LockError::config(
        "a store in this process has no login; leave out `credentials`, `password_file` and LEASEHOLD_PASSWORD_FILE",
    ))
}
