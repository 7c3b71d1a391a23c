//! A lock held until the test releases it.

use std::time::Duration;

use leasehold::{LockError, LockPool, distributed_lock};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

#[distributed_lock(key = "<key>", ttl = Holder::TTL, watchdog, guard = lock, pool = pool)]
async fn held(
    pool: LockPool,
    key: String,
    entered: oneshot::Sender<()>,
    leave: oneshot::Receiver<()>,
) -> Result<(), LockError> {
    entered.send(()).expect("the test waits for it");
    leave.await.expect("the test is done when");
    lock.check()
}

/// A lock with a watchdog, held until the test ends the body.
#[derive(Debug)]
pub struct Holder {
    /// A value sent here ends the body.
    pub leave: oneshot::Sender<()>,
    /// The task that runs the annotated function.
    pub task: JoinHandle<Result<(), LockError>>,
}

impl Holder {
    /// The ttl of the lock.
    pub const TTL: Duration = Duration::from_secs(2);

    /// Calls the annotated function, and returns once its body has begun.
    ///
    /// # Panics
    ///
    /// Panics if the lock is not granted.
    pub async fn enter(pool: &LockPool, key: &str) -> Self {
        let ((entered, seen), (leave, left)) = (oneshot::channel(), oneshot::channel());
        let task = tokio::spawn(held(pool.clone(), key.to_owned(), entered, left));
        seen.await.expect("the body begins");
        Self { leave, task }
    }

    /// Ends the body and waits for the call. `what` is the panic message if the call fails.
    ///
    /// # Panics
    ///
    /// Panics if the call fails, for example because the lease was lost.
    pub async fn leave(self, what: &str) {
        let sent = self.leave.send(());
        let ended = self.task.await.expect("no panic");
        assert_eq!((sent, ended), (Ok(()), Ok(())), "{what}");
    }
}
