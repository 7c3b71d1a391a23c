//! Calls that park their thread instead of being awaited.
//!
//! The thread polls the same future as an async caller, so there is one way to take, keep and
//! release a lock. A listener, or the keeper on its own thread, reads the store's answer and wakes
//! the parked thread. No part of the future needs a timer or a task of the caller's runtime.

use std::cell::Cell;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::task::coop;

use crate::base::parking::polled;
use crate::base::seeded::seeded;
use crate::base::{codes, reporter};
use crate::error::LockError;
use crate::lock::nest::call_site::At;
use crate::pool::LockPool;

thread_local! {
    /// True while a call parks this thread, if [`is_worker`] was true before.
    static PARKED_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// A call that parks its thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parks {
    /// True if the thread runs tasks of a runtime, which stop while the call parks the thread.
    on_worker: bool,
}

impl Parks {
    /// Describes a call at `at`, which is about to park this thread. If the thread runs tasks of a
    /// runtime, logs a warning, but only for the first such call of the process.
    pub(crate) fn here(at: At) -> Self {
        static LOGGED: AtomicBool = AtomicBool::new(false);
        let on_worker = is_worker();
        if on_worker && !LOGGED.swap(true, Ordering::Relaxed) {
            reporter::log(move || {
                tracing::warn!(
                    code = codes::WORKER_BLOCKED,
                    %at,
                    "a blocking call stops a thread of a tokio runtime and the other tasks on it; \
                     call it in `tokio::task::spawn_blocking`, or await the async call; later such \
                     calls are not logged"
                );
            });
        }
        Self { on_worker }
    }

    /// Refuses a call if it parks a thread that runs tasks of a runtime, and the pool's engine is
    /// itself a task. If that task needs the parked thread, the engine cannot run, and the call
    /// would wait forever.
    pub(crate) fn check(self, pool: &LockPool) -> Result<(), LockError> {
        if self.on_worker && !pool.has_own_thread() {
            return Err(LockError::config(
                "a blocking call would block the runtime of the pool's engine, and so wait \
                 forever; call it in `tokio::task::spawn_blocking`, or connect the pool without \
                 `on_current_runtime`",
            ));
        }
        Ok(())
    }
}

/// True if a task, or the future of a `block_on`, runs on this thread. False for a thread that may
/// block: in `spawn_blocking` or `block_in_place`. Also false where the program itself uses
/// `tokio::task::unconstrained`.
///
/// tokio has no function for this. But inside a task or a `block_on`, and only there, tokio limits
/// the number of operations between two yields to at most 255. This function counts 256 operations,
/// and returns true if tokio refuses one. The task then yields at its next operation, which matters
/// little to a task that blocks its thread.
fn is_worker() -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    let mut is_limited = || match coop::poll_proceed(&mut cx) {
        Poll::Ready(budget) => {
            budget.made_progress();
            false
        }
        Poll::Pending => true,
    };
    // `park` runs a call's body without this limit. So inside such a body, only `PARKED_WORKER`
    // shows that the thread is a worker.
    PARKED_WORKER.get() || Handle::try_current().is_ok() && (0..=u8::MAX).any(|_| is_limited())
}

/// Polls `future` to its end, and parks this thread between the polls.
pub(crate) fn park<F: Future>(parks: Parks, future: F) -> F::Output {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            PARKED_WORKER.set(self.0);
        }
    }
    let _restore = Restore(PARKED_WORKER.replace(parks.on_worker));
    if seeded!(ParkedOnBudget) {
        return polled(future);
    }
    // Exempts the future from tokio's limit of operations. If the future used up the limit, tokio
    // would wake it only after the surrounding task yields. But that task cannot yield while its
    // thread is parked, so the future would wait forever.
    polled(coop::unconstrained(future))
}

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, Runtime};
    use tokio::task::{block_in_place, spawn_blocking};

    use super::*;

    const ELSEWHERE: Parks = Parks { on_worker: false };

    /// A call parks the thread of a `block_on`. Fails if `is_worker` is then false in the call's
    /// body, or in the body of a second parking call inside it.
    #[test]
    fn a_nested_parked_call_belongs_to_its_worker() {
        let [one, _] = runtimes();
        one.block_on(async {
            let parks = Parks { on_worker: true };
            assert!(park(parks, async { is_worker() }));
            assert!(park(parks, async { park(parks, async { is_worker() }) }));
        });
        assert!(!is_worker(), "the call has ended");
    }

    fn runtimes() -> [Runtime; 2] {
        let (mut one, mut several) = (Builder::new_current_thread(), Builder::new_multi_thread());
        [one.build(), several.worker_threads(2).build()].map(|runtime| runtime.expect("it starts"))
    }

    /// Fails if `is_worker` is true on a thread that may block, or false in a task or a `block_on`.
    #[test]
    fn workers_are_recognized() {
        assert!(!is_worker(), "a thread without a runtime");
        for runtime in runtimes() {
            let _inside = runtime.enter();
            assert!(!is_worker(), "a thread that has only entered the runtime");
            let worker = runtime.spawn(async { is_worker() });
            let blocking = spawn_blocking(is_worker);
            let ended = runtime.block_on(async { (worker.await, blocking.await, is_worker()) });
            let (worker, blocking, main) = ended;
            assert!(worker.expect("no panic"), "a task");
            assert!(!blocking.expect("no panic"), "a thread of `spawn_blocking`");
            assert!(main, "the future of `block_on`");
        }
        let [_, several] = runtimes();
        let task = several.spawn(async { block_in_place(is_worker) });
        let is_worker = several.block_on(task).expect("no panic");
        assert!(!is_worker, "a thread in `block_in_place`");
    }

    /// A task uses up tokio's limit of operations, and then parks its thread. Fails if the limit
    /// also applies to the future that the parked thread polls.
    #[test]
    fn a_parked_future_has_no_limit() {
        let [one, _] = runtimes();
        let spends = || {
            assert!(is_worker(), "the limit is used up");
            park(ELSEWHERE, async {
                (0..3).for_each(|_| assert!(!is_worker()));
            });
        };
        one.block_on(async { spends() });
    }
}
