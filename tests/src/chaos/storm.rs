//! Worker processes under every fault, until enough has happened.
//!
//! On Redis each has a network of its own to a server that has every write on disk before it
//! answers. (No promise covers a server that loses acknowledged writes.) With `memory://` the locks
//! belong to one process, which is stopped and killed. Each process begins with keys of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::crew::Crew;
use super::ending::{all_free, end_all};
use super::faults::{Lane as FaultLane, Spans, Struck};
use super::ground::{Ground, Size, Store};
use super::job::Job;
use super::sheet::Sheet;
use crate::oracle::Report;
use crate::proxy::Proxy;
use crate::server::ServerOptions;

/// The ttl of all locks: faults are shorter and longer than this.
pub(super) const TTL: Duration = Duration::from_millis(600);
pub(super) const WORKERS: usize = 4;
/// So much must happen in any run.
const LEAST: u64 = 200;
/// The faults that workers make themselves.
pub(super) const INSIDE: [&str; 2] = ["future dropped", "user worker blocked"];

/// The workers' job, and for how long they do it.
pub(super) struct Storm<'a> {
    /// Makes the job of a worker from its store, the prefix of its keys, and its seed.
    pub(super) job: fn(&Crew, &str, &str, u64) -> Job,
    /// What goes on beside it, on Redis: with the server's URL, until the end is told.
    pub(super) beside: &'a (dyn Fn(&str, &AtomicBool) + Sync),
    /// The notes that count as progress,
    pub(super) progress: Progress,
    /// A full run ends when it has so many of them and so many faults,
    pub(super) enough: u64,
    pub(super) faults: u64,
    /// or after this time.
    pub(super) limit: Duration,
}

/// Which notes count.
#[derive(Debug, Clone, Copy)]
pub(super) enum Progress {
    /// Bodies that begin.
    Sections,
    /// Calls with `replay` that get an answer.
    Answers,
}

impl Progress {
    fn is(self, line: &[u8]) -> bool {
        line.starts_with(match self {
            Self::Sections => b"{\"note\":\"enter\"",
            Self::Answers => b"{\"note\":\"answered\"",
        })
    }
}

/// Nothing goes on beside.
pub(super) fn alone(_: &str, _: &AtomicBool) {}

/// How many faults the workers made themselves.
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
        // A short log loads fast after a restart.
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
            // While one process is stopped, the other works.
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
                        // Several pools of one process stand in for processes.
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

    /// Waits until the numbers are reached, or the time is over.
    pub(super) fn until_enough(&self, size: Size, history: &Path) {
        let started = Instant::now();
        let mut lines = BufReader::new(std::fs::File::open(history).expect("the history is there"));
        let (mut progress, mut faults) = (0, 0);
        let mut line = Vec::new();
        // On a machine that is busy with other tests nothing may happen for long.
        while started.elapsed() < self.limit
            || (progress < LEAST && started.elapsed() < self.limit * 6)
        {
            std::thread::sleep(Duration::from_millis(200));
            while lines
                .read_until(b'\n', &mut line)
                .is_ok_and(|length| length > 0)
            {
                if !line.ends_with(b"\n") {
                    break;
                }
                progress += u64::from(self.progress.is(&line));
                faults += u64::from(is_outside_fault(&line));
                line.clear();
            }
            if size == Size::Full && progress >= self.enough && faults >= self.faults {
                return;
            }
        }
    }
}

/// The pause between two faults of one process. A full run leaves time for sections too. So does
/// one on PostgreSQL, which starts a process for each new connection: on a busy machine no worker
/// would be connected for long enough to get a lock.
pub(super) fn pause(ground: &Ground) -> Duration {
    match ground.size {
        Size::Full if ground.store == Store::Memory => Duration::from_millis(250),
        Size::Full => Duration::from_millis(2_500),
        Size::Small if ground.store == Store::Postgres => Duration::from_secs(2),
        Size::Small => Duration::from_millis(600),
    }
}

/// Whether the note is of a fault from outside: faults that workers make themselves do not count.
fn is_outside_fault(line: &[u8]) -> bool {
    let fault = b"{\"note\":\"fault\",\"kind\":\"";
    let kind = line.strip_prefix(fault);
    kind.is_some_and(|kind| {
        !INSIDE
            .iter()
            .any(|inside| kind.starts_with(inside.as_bytes()))
    })
}
