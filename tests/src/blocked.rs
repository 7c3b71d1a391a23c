//! A runtime with all workers blocked.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

/// Interval at which another blocking task is spawned, until all workers of the runtime are
/// blocked.
const STEP: Duration = Duration::from_millis(5);
const LIMIT: Duration = Duration::from_secs(30);

/// A runtime whose worker threads are all blocked. Dropping this value unblocks them.
#[derive(Debug)]
#[must_use]
pub struct Blocked(Arc<Block>);

#[derive(Debug, Default)]
struct Block {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    workers: usize,
    over: bool,
}

impl Blocked {
    /// Blocks all workers of the runtime, and returns once they are blocked.
    ///
    /// Spawns blocking tasks until each worker is blocked. This may need more tasks than workers:
    /// one worker may take two tasks and block in the first, while another worker sleeps. The next
    /// task wakes a sleeping worker.
    ///
    /// # Panics
    ///
    /// Panics if a worker stays busy with other tasks, so that it is not blocked within 30 s.
    pub fn all(runtime: &Runtime) -> Self {
        let block = Arc::new(Block::default());
        let wanted = runtime.metrics().num_workers();
        let end = Instant::now() + LIMIT;
        let mut state = block.lock();
        while state.workers < wanted {
            assert!(Instant::now() < end, "a worker does not take a task");
            let here = Arc::clone(&block);
            runtime.spawn(async move { here.stay() });
            let woken = block.changed.wait_timeout(state, STEP);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        Self(block)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.0.lock().over = true;
        self.0.changed.notify_all();
    }
}

impl Block {
    /// Blocks the worker thread that runs this function.
    fn stay(&self) {
        let mut state = self.lock();
        state.workers += 1;
        self.changed.notify_all();
        while !state.over {
            let woken = self.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::Blocked;

    /// Fails if a worker still runs a task while all workers should be blocked, or stays blocked
    /// after `Blocked` is dropped.
    #[test]
    fn all_workers_block_and_come_back() {
        for workers in [1, 2, 4] {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(workers)
                .build()
                .expect("a runtime starts");
            for _ in 0..50 {
                let (done, is_done) = channel();
                let blocked = Blocked::all(&runtime);
                runtime.spawn(async move { done.send(()) });
                assert!(is_done.recv_timeout(Duration::from_millis(2)).is_err());
                drop(blocked);
                is_done.recv().expect("it runs now");
            }
        }
    }
}
