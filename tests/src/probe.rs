//! Probes, which read locks without the pool under test and can act as another holder.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use leasehold::{LockError, LockGuard, LockPool};

/// Blocking access to the locks of a store, from any thread, without the pool under test.
pub trait Probe: Send + Sync {
    /// True if any holder has `key`.
    fn exists(&self, key: &str) -> bool;

    /// Takes `key` for `ttl`, as another holder would. Returns `false` if it is held.
    fn take(&self, key: &str, ttl: Duration) -> bool;

    /// True if the lock from [`take`](Self::take) is still on the store, and unchanged.
    fn untouched(&self, key: &str) -> bool;

    /// Overwrites the current lock with a lock of another holder. No correct client does this.
    fn steal(&self, key: &str, ttl: Duration) {
        unimplemented!("`{key}` cannot be stolen for {ttl:?} in this store")
    }

    /// Releases the lock from [`take`](Self::take).
    fn give_back(&self, key: &str);
}

enum Ask {
    Exists(String),
    Take(String, Duration),
    Untouched(String),
    GiveBack(String),
}

/// A probe of a `memory://` store. The probe has a second pool on the same store. It reports that a
/// key exists if this pool cannot take the key.
///
/// This second pool runs on a separate thread with a separate runtime. So any code can block until
/// the probe answers, even a destructor inside the test's runtime.
#[derive(Debug)]
pub struct MemoryProbe {
    ask: std::sync::Mutex<Sender<(Ask, Sender<bool>)>>,
}

impl MemoryProbe {
    /// Makes a probe for the store that `url` names.
    ///
    /// # Panics
    ///
    /// Panics if the URL has no name, because a second pool would then get a separate store.
    pub fn new(url: &str) -> Self {
        assert_ne!(url, "memory://", "it is private to its pool");
        let (ask, asked) = channel();
        let url = url.to_owned();
        std::thread::spawn(move || serve(&url, &asked));
        Self {
            ask: std::sync::Mutex::new(ask),
        }
    }

    fn ask(&self, ask: Ask) -> bool {
        let (reply, answer) = channel();
        self.ask
            .lock()
            .expect("the probe was not poisoned")
            .send((ask, reply))
            .expect("the probe's thread lives");
        answer.recv().expect("the probe's thread answers")
    }
}

impl Probe for MemoryProbe {
    fn exists(&self, key: &str) -> bool {
        self.ask(Ask::Exists(key.to_owned()))
    }

    fn take(&self, key: &str, ttl: Duration) -> bool {
        self.ask(Ask::Take(key.to_owned(), ttl))
    }

    fn untouched(&self, key: &str) -> bool {
        self.ask(Ask::Untouched(key.to_owned()))
    }

    fn give_back(&self, key: &str) {
        self.ask(Ask::GiveBack(key.to_owned()));
    }
}

fn serve(url: &str, asked: &Receiver<(Ask, Sender<bool>)>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    runtime.block_on(async {
        let pool = LockPool::connect(url).await.expect("the store opens");
        let mut taken: Vec<LockGuard> = Vec::new();
        while let Ok((ask, reply)) = asked.recv() {
            let answer = answer(&pool, &mut taken, ask).await;
            // `send` fails only if the asking thread no longer waits for the answer.
            let _ = reply.send(answer);
        }
    });
}

async fn answer(pool: &LockPool, taken: &mut Vec<LockGuard>, ask: Ask) -> bool {
    match ask {
        Ask::Exists(key) => match acquire(pool, &key, Duration::from_secs(5)).await {
            Some(guard) => {
                guard.release().await.expect("the probe's lock is released");
                false
            }
            None => true,
        },
        Ask::Take(key, ttl) => {
            let guard = acquire(pool, &key, ttl).await;
            let got = guard.is_some();
            taken.extend(guard);
            got
        }
        Ask::Untouched(key) => {
            let held = taken.iter().rev().find(|guard| guard.key() == key);
            held.is_some_and(|guard| guard.check().is_ok())
                && acquire(pool, &key, Duration::from_secs(5)).await.is_none()
        }
        Ask::GiveBack(key) => {
            let at = taken.iter().position(|guard| guard.key() == key);
            let guard = taken.remove(at.expect("the probe holds the key"));
            guard.release().await.is_ok()
        }
    }
}

async fn acquire(pool: &LockPool, key: &str, ttl: Duration) -> Option<LockGuard> {
    match pool.lock(key).ttl(ttl).wait(Duration::ZERO).acquire().await {
        Ok(guard) => Some(guard),
        Err(LockError::Contended { .. }) => None,
        Err(error) => panic!("the probe's own acquire failed: {error}"),
    }
}
