//! The environment of a requirement: its store, its size and its folder.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::LockPool;
use tokio::runtime::{Builder, Runtime};

use super::crew::Crew;
use super::ensembles::Ensemble;
use super::sheet::{Outcome, Sheet};
use super::site::Site;
use super::store::Store;
use crate::lateness;
use crate::oracle::Note;
use crate::pipe::Pipe;
use crate::probe::{MemoryProbe, Probe};
use crate::random::Random;
use crate::wait;

/// The size of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// The numbers in docs/reliability/results.md.
    Full,
    /// Smaller numbers, for the test suite.
    Small,
}

/// The environment and the numbers of a requirement's run.
#[derive(Debug, Clone)]
pub struct Ground {
    /// The program of the harness. Its command `worker` runs a job in a separate process.
    pub program: PathBuf,
    /// The folder of the histories.
    pub folder: PathBuf,
    /// The seed of all random choices.
    pub seed: u64,
    /// The store.
    pub store: Store,
    /// The size of the run.
    pub size: Size,
    /// Time limit of the open-ended requirements (exclusion, soak).
    pub time: Duration,
    /// Number of sections (runs of a body) that the exclusion run must reach.
    pub sections: u64,
}

/// A requirement: one line of the table in `docs/reliability/results.md`.
#[derive(Debug, Clone, Copy)]
pub struct Requirement {
    /// The number of the requirement in `docs/reliability/results.md`.
    pub number: u8,
    /// The requirement's text in tables of results.
    pub what: &'static str,
    /// The stores that the requirement applies to.
    pub stores: &'static [Store],
    /// Runs the requirement.
    pub run: fn(&Ground, &Sheet),
}

/// Stores of requirements that run on Redis and in memory.
pub(super) const BOTH: &[Store] = &[Store::Redis, Store::Memory];
/// Stores of requirements that also hold on etcd and ZooKeeper, whose locks belong to sessions.
pub(super) const EVERYWHERE: &[Store] = &[
    Store::Redis,
    Store::Memory,
    Store::Postgres,
    Store::Etcd,
    Store::Zookeeper,
];
/// Stores of requirements about a Redis server and its network.
pub(super) const REDIS: &[Store] = &[Store::Redis];
/// Stores of requirements that run on Redis, in memory and on PostgreSQL.
pub(super) const ALL: &[Store] = &[Store::Redis, Store::Memory, Store::Postgres];
pub(super) const SERVERS: &[Store] = &[Store::Redis, Store::Postgres];

impl Requirement {
    /// Runs the requirement. A panic counts as a failure.
    pub fn outcome(&self, ground: &Ground) -> Outcome {
        lateness::start();
        let sheet = Sheet::new();
        let ended = catch_unwind(AssertUnwindSafe(|| (self.run)(ground, &sheet)));
        if let Err(panic) = ended {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            sheet.fail(format!("panicked: {}", text.unwrap_or("see above")));
        }
        sheet.into_outcome()
    }
}

impl Ground {
    /// Returns `full` or `small`, depending on the size of the run.
    pub(super) fn count(&self, full: u64, small: u64) -> u64 {
        match self.size {
            Size::Full => full,
            Size::Small => small,
        }
    }

    /// Returns a random generator that depends on the run's seed and on `number`.
    pub(super) fn random(&self, number: u64) -> Random {
        Random::new(self.seed.wrapping_mul(1_000).wrapping_add(number))
    }

    /// Returns a crew with a history named `name`.
    pub(super) fn crew(&self, name: &str) -> Crew {
        let folder = self.folder.join(format!("{name}-{}", self.store.name()));
        let crew = Crew::new(Path::new(&self.program), &folder, name, self.seed);
        if self.store == Store::Redlock {
            // Redlock gives no fences, because its masters are independent.
            crew.note(&Note::Unfenced);
        }
        crew
    }

    /// Starts an empty store: memory, or a single server. A requirement that needs several servers
    /// does not use this function.
    pub(super) fn place(&self, name: &str) -> Place {
        if self.store == Store::Memory {
            let url = format!("memory://{name}-{}", self.seed);
            return Place {
                probe: Arc::new(MemoryProbe::new(&url)),
                url,
                server: None,
                ensemble: None,
            };
        }
        if matches!(self.store, Store::Etcd | Store::Zookeeper) {
            let server = Ensemble::start(self.store, 1);
            return Place {
                url: server.url(),
                probe: server.probe(),
                server: None,
                ensemble: Some(server),
            };
        }
        let server = Site::start(self.store);
        Place {
            url: server.url(),
            probe: server.probe(),
            server: Some(server),
            ensemble: None,
        }
    }
}

/// A running store, and a probe that reads its locks without a pool.
pub(super) struct Place {
    pub(super) url: String,
    pub(super) probe: Arc<dyn Probe>,
    server: Option<Site>,
    ensemble: Option<Ensemble>,
}

impl Place {
    /// Starts a proxy to the server. Returns the proxy, and the URL of the locks through this
    /// proxy.
    ///
    /// # Panics
    ///
    /// Panics if the store is memory, which has no server.
    pub(super) fn piped(&self) -> (Pipe, String) {
        if let Some(site) = &self.server {
            let pipe = Pipe::start(site.address());
            let url = site.url_over(pipe.address());
            return (pipe, url);
        }
        let ensemble = self.ensemble.as_ref().expect("a store with a server");
        let mut pipes = ensemble.pipes();
        let url = ensemble.url_over(&pipes);
        (pipes.remove(0), url)
    }
}

pub(super) fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .expect("a runtime starts")
}

pub(super) fn local_runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts")
}

pub(super) async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url)).await
}

/// Runs `lane` on several threads. Each `lane` receives a function, from which it takes its
/// numbers: all threads together take each number below `total` once. Panics if a thread panics.
pub(super) fn on_threads(
    threads: u64,
    total: u64,
    random: &mut Random,
    lane: impl Fn(u64, Random, &dyn Fn() -> Option<u64>) + Sync,
) {
    let next = AtomicU64::new(0);
    let take = || {
        next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| {
            (number < total).then_some(number + 1)
        })
        .ok()
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..threads)
            .map(|thread| {
                let (random, lane, take) = (random.fork(), &lane, &take);
                scope.spawn(move || lane(thread, random, take))
            })
            .collect();
        for lane in lanes {
            if let Err(panic) = lane.join() {
                // Panics with the text of the thread's panic. Otherwise, the scope would panic with
                // another text.
                resume_unwind(panic);
            }
        }
    });
}
