//! Worker processes under every fault, until they have made enough progress.
//!
//! On Redis each process reaches the server through a separate proxy, which injects network faults.
//! The server writes every change to disk before it answers, because no promise covers a server
//! that loses acknowledged writes. With `memory://` each process has a separate store, and the only
//! faults from outside are stops and kills. The process that replaces a killed one starts with an
//! empty store, whose fences begin again. So it uses new keys.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::crew::Crew;
use super::ending::{all_free, end_all};
use super::faults::{Lane as FaultLane, Spans, Struck};
use super::ground::{Ground, Size};
use super::job::Job;
use super::sheet::Sheet;
use super::store::Store;
use super::tally::{INSIDE, Progress, Tally};
use crate::oracle::Report;
use crate::proxy::Proxy;
use crate::server::ServerOptions;

/// The ttl of all locks. Some faults are shorter than the ttl, and others are longer.
pub(super) const TTL: Duration = Duration::from_millis(600);
pub(super) const WORKERS: usize = 4;
/// Number of notes of the kind `Storm::progress` that a run waits for even after its time limit.
const LEAST: u64 = 200;
/// A run without `LEAST` progress notes or without the awaited line may take up to this multiple of
/// its time limit.
const PATIENCE: u32 = 12;

/// The workers' job, and the conditions for the end of their run.
pub(super) struct Storm<'a> {
    /// Function that makes the job of a worker from the URL of its store, the prefix of its keys,
    /// and its seed.
    pub(super) job: fn(&Crew, &str, &str, u64) -> Job,
    /// Function called in parallel with the workers on Redis, with the server's URL and a flag. It
    /// must return once the flag is true.
    pub(super) beside: &'a (dyn Fn(&str, &AtomicBool) + Sync),
    /// The beginning of a line of the history. The run waits for such a line, for at most
    /// `PATIENCE` times its time limit. `None` if it waits for no line.
    pub(super) awaited: Option<&'static [u8]>,
    /// The notes that count as progress.
    pub(super) progress: Progress,
    /// A full run ends after `enough` progress notes and `faults` faults.
    pub(super) enough: u64,
    pub(super) faults: u64,
    /// Time limit of a run that has `LEAST` progress notes and the awaited line.
    pub(super) limit: Duration,
}

/// Runs nothing in parallel with the workers.
pub(super) fn alone(_: &str, _: &AtomicBool) {}

/// Returns the number of faults that the workers caused themselves.
pub(super) fn from_inside(report: &Report) -> u64 {
    let of_kind = |kind: &&str| report.faults.get(*kind).copied().unwrap_or(0);
    INSIDE.iter().map(of_kind).sum()
}

impl Storm<'_> {
    pub(super) fn rage(&self, ground: &Ground, sheet: &Sheet, crew: &Crew) {
        match ground.store {
            Store::Memory => self.in_memory(ground, crew),
            Store::Postgres => self.on_postgres(ground, sheet, crew),
            _ => self.on_redis(ground, sheet, crew),
        }
    }

    fn on_redis(&self, ground: &Ground, sheet: &Sheet, crew: &Crew) {
        let mut random = ground.random(1);
        // The append-only file is rewritten early, so that it stays short and loads fast after a
        // restart.
        let mut server = ServerOptions::new()
            .append_only()
            .option("auto-aof-rewrite-min-size", &["4mb"])
            .start();
        let server_url = server.url();
        let proxies: Vec<Proxy> = (0..WORKERS)
            .map(|_| Proxy::start(server.address()))
            .collect();
        let over = AtomicBool::new(false);
        let hands = std::thread::scope(|scope| {
            let lanes = proxies.iter().map(|proxy| {
                let mut lane = FaultLane {
                    crew,
                    proxies: std::slice::from_ref(proxy),
                    spans: Spans::new(random.fork()),
                    ttl: TTL,
                    pause: pause(ground),
                    mortal: true,
                    over: &over,
                };
                let mut seeds = random.fork();
                scope.spawn(move || {
                    let mut start =
                        || crew.spawn(&(self.job)(crew, &proxy.url(), "k", seeds.next_u64()), None);
                    let hand = start();
                    lane.run(hand, start)
                })
            });
            let lanes: Vec<_> = lanes.collect();
            let mut struck = Struck {
                crew,
                server: &mut server,
                spans: Spans::new(random.fork()),
                ttl: TTL,
            };
            let (over, pause, url) = (&over, pause(ground) * 2, server_url.as_str());
            scope.spawn(move || struck.run(pause, over));
            scope.spawn(move || (self.beside)(url, over));
            self.until_enough(ground.size, crew.history());
            over.store(true, Ordering::Relaxed);
            lanes
                .into_iter()
                .map(|lane| lane.join().expect("no panic"))
                .collect::<Vec<_>>()
        });
        end_all(sheet, hands);
        all_free(crew, &server.probe(), TTL);
    }

    fn in_memory(&self, ground: &Ground, crew: &Crew) {
        let mut random = ground.random(2);
        let over = AtomicBool::new(false);
        let born = AtomicU64::new(0);
        let (over, born) = (&over, &born);
        std::thread::scope(|scope| {
            // There are two workers at a time, so that one of them works while the other is
            // stopped.
            let lanes = (0..2).map(|_| {
                let mut lane = FaultLane {
                    crew,
                    proxies: &[],
                    spans: Spans::new(random.fork()),
                    ttl: TTL,
                    pause: pause(ground),
                    mortal: true,
                    over,
                };
                let mut seeds = random.fork();
                scope.spawn(move || {
                    let mut start = || {
                        let prefix = format!("m{}", born.fetch_add(1, Ordering::Relaxed));
                        let mut job = (self.job)(crew, "memory://chaos", &prefix, seeds.next_u64());
                        // Each group of calls runs twice, on two separate pools, which stand for
                        // two processes.
                        job.lanes.extend(job.lanes.clone());
                        crew.spawn(&job, None)
                    };
                    let hand = start();
                    lane.run(hand, start)
                })
            });
            let lanes: Vec<_> = lanes.collect();
            self.until_enough(ground.size, crew.history());
            over.store(true, Ordering::Relaxed);
            for lane in lanes {
                lane.join().expect("no panic").finish();
            }
        });
    }

    /// Waits until the run has enough progress and faults, or until its time is over.
    pub(super) fn until_enough(&self, size: Size, history: &Path) {
        let started = Instant::now();
        let mut tally = Tally::of(history, self.progress, self.awaited);
        // On a machine that is busy with other tests, a run may need longer than its limit to reach
        // `LEAST` and the awaited line.
        while started.elapsed() < self.limit
            || (!tally.has(LEAST, 0) && started.elapsed() < self.limit * PATIENCE)
        {
            std::thread::sleep(Duration::from_millis(200));
            tally.read();
            if size == Size::Full && tally.has(self.enough, self.faults) {
                return;
            }
        }
    }
}

/// Returns the longest pause between two faults of one process. In a full run the pauses are long
/// enough for bodies to run. On PostgreSQL the pauses of a small run are also long, because
/// PostgreSQL starts a process for each new connection. With shorter pauses on a busy machine, no
/// worker would be connected for long enough to get a lock.
pub(super) fn pause(ground: &Ground) -> Duration {
    match ground.size {
        Size::Full if ground.store == Store::Memory => Duration::from_millis(250),
        Size::Full => Duration::from_millis(2_500),
        Size::Small if ground.store == Store::Postgres => Duration::from_secs(2),
        Size::Small => Duration::from_millis(600),
    }
}
