//! Callers that contend for a few keys while a test causes faults. Each run of a body inside its
//! lock (a "section") is recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{Fence, LockError, LockPool, distributed_lock};
use tokio::task::JoinSet;

use crate::clock;
use crate::lateness::Excuse;
use crate::random::Random;
use crate::recorder::{Recorder, Section, Violation};

/// Nanoseconds per microsecond. The recorder counts in microseconds.
const NANOS_PER_MICRO: u64 = 1_000;

/// Running callers, which contend for the keys.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    recorder: Recorder,
    longest: Duration,
    stop: AtomicBool,
    unavailable: AtomicU64,
    excuse: Excuse,
}

#[distributed_lock(key = "<key>", ttl = Load::TTL, wait = "300ms", guard = lock, pool = pool)]
async fn section(
    pool: &LockPool,
    key: &str,
    shared: &Shared,
    length: Duration,
) -> Result<(), LockError> {
    let deadline = leasehold::__test::confirmed(&lock) / NANOS_PER_MICRO;
    let _inside = shared
        .recorder
        .enter(key, lock.fence().map(Fence::get), deadline);
    tokio::time::sleep(length).await;
    Ok(())
}

impl Load {
    /// The ttl of a caller's lock, which is not renewed.
    pub const TTL: Duration = Duration::from_secs(6);

    /// The key with this number, as it is on the server in the default namespace.
    pub fn wire_key(number: u64) -> String {
        format!("lock:{}", leasehold::encode(name(number)))
    }

    /// Starts `callers` callers on each pool. All callers share `keys` keys. A section lasts at
    /// most `longest`, which must be less than `Load::TTL`.
    pub fn start(
        pools: &[LockPool],
        callers: u64,
        keys: u64,
        longest: Duration,
        random: &mut Random,
    ) -> Self {
        let shared = Arc::new(Shared {
            recorder: Recorder::new(),
            longest,
            stop: AtomicBool::new(false),
            unavailable: AtomicU64::new(0),
            excuse: Excuse::begin(),
        });
        let mut tasks = JoinSet::new();
        for pool in pools {
            for _ in 0..callers {
                tasks.spawn(call(pool.clone(), keys, Arc::clone(&shared), random.fork()));
            }
        }
        Self { shared, tasks }
    }

    /// Number of sections that have ended.
    pub fn sections(&self) -> usize {
        self.shared.recorder.len()
    }

    /// Number of calls that failed because the store was unavailable.
    pub fn unavailable(&self) -> u64 {
        self.shared.unavailable.load(Ordering::Relaxed)
    }

    /// Lets all callers finish, and returns the records.
    ///
    /// # Panics
    ///
    /// Panics if a caller has panicked.
    pub async fn stop(mut self) -> Ended {
        self.shared.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("no caller panics");
        }
        Ended(self.shared)
    }
}

/// The records of an ended load.
#[derive(Debug)]
pub struct Ended(Arc<Shared>);

impl Ended {
    /// The recorder of the sections.
    pub fn recorder(&self) -> &Recorder {
        &self.0.recorder
    }

    /// Number of pairs of sections that overlap, or whose fences are in the wrong order because
    /// their grants crossed (`grants_crossed`). A fail-over with asynchronous replication may cause
    /// such pairs. `what` is printed with the counts.
    ///
    /// # Panics
    ///
    /// Panics if a promise that does not depend on replication is broken.
    pub fn overlaps(&self, what: &str) -> usize {
        let (mut overlaps, mut crossed, mut others) = (0, 0, Vec::new());
        for found in self.recorder().violations() {
            match &found {
                Violation::Overlap(..) => overlaps += 1,
                Violation::FenceOrder(earlier, later) if grants_crossed(earlier, later) => {
                    crossed += 1;
                }
                Violation::Outlived(section) if self.was_put_aside(section) => {}
                _ => others.push(found),
            }
        }
        assert_eq!(others, [], "promises that do not depend on replication");
        let sections = self.recorder().len();
        println!("{what}: {sections} sections, {overlaps} overlaps, {crossed} crossed grants");
        overlaps + crossed
    }

    /// True if a delay of the machine explains that a body outlived its lease: the thread of the
    /// body did not run in time.
    fn was_put_aside(&self, section: &Section) -> bool {
        section.end() < section.deadline + clock::micros(self.0.excuse.so_far())
    }
}

/// True if two masters, which count their fences separately, may have granted these leases. The
/// later body then has the smaller fence, and its lease was requested before the earlier body
/// ended.
fn grants_crossed(earlier: &Section, later: &Section) -> bool {
    let asked = later.deadline.saturating_sub(clock::micros(Load::TTL));
    later.fence < earlier.fence && asked < earlier.end()
}

fn name(number: u64) -> String {
    format!("load:{number}")
}

async fn call(pool: LockPool, keys: u64, shared: Arc<Shared>, mut random: Random) {
    while !shared.stop.load(Ordering::Relaxed) {
        let key = name(random.below(keys));
        let length = random.duration(shared.longest);
        match section(&pool, &key, &shared, length).await {
            Ok(()) => {}
            Err(error) if error.is_unavailable() => {
                shared.unavailable.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => assert!(error.is_contention() || error.is_lost(), "{error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Load, Section, grants_crossed};
    use crate::clock;

    /// A section whose lease was requested at `asked`.
    fn section(asked: u64, fence: u64, entered: u64, left: u64) -> Section {
        Section {
            key: "k".to_owned(),
            fence: Some(fence),
            entered,
            left: Some(left),
            deadline: asked + clock::micros(Load::TTL),
        }
    }

    #[test]
    fn a_concurrent_lease_may_have_a_smaller_fence() {
        let earlier = section(10, 8, 20, 50);
        assert!(grants_crossed(&earlier, &section(5, 7, 30, 60)));
        assert!(grants_crossed(&earlier, &section(49, 7, 60, 70)));
        assert!(!grants_crossed(&earlier, &section(50, 7, 60, 70)));
        assert!(!grants_crossed(&earlier, &section(5, 8, 30, 60)));
    }
}
