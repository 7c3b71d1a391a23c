//! Requirement 1: no two leases of one key overlap, whatever fails.
//!
//! Worker processes count, each through a network of its own, in a Redis that has every write on disk before it
//! answers. (A server that loses acknowledged writes is outside of what is promised.) With `memory://` the
//! locks are of one process, which is stopped and killed; each process begins with keys of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::crew::Crew;
use super::ending::{all_free, end_all};
use super::faults::{Lane as FaultLane, Spans, Struck};
use super::ground::{BOTH, Ground, Requirement, Size, Store};
use super::job::{Form, Job, Lane, Work};
use super::sheet::Sheet;
use crate::oracle::Mode;
use crate::proxy::Proxy;
use crate::server::ServerOptions;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 1,
    what: "lease exclusion under faults",
    stores: BOTH,
    run,
};

const FAULTS: u64 = 500;
/// The faults that workers make themselves.
pub(super) const INSIDE: [&str; 2] = ["future dropped", "user worker blocked"];
pub(super) const TTL: Duration = Duration::from_millis(600);
pub(super) const WORKERS: usize = 4;
/// A full run that has not reached its numbers goes on for so long.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

fn run(ground: &Ground, sheet: &Sheet) {
    let crew = ground.crew("exclusion");
    match ground.store {
        Store::Memory => in_memory(ground, &crew),
        _ => on_redis(ground, sheet, &crew),
    }
    let report = crew.report();
    sheet.report(&report);
    let of_kind = |kind: &&str| report.faults.get(*kind).copied().unwrap_or(0);
    let inside = INSIDE.iter().map(of_kind).sum::<u64>();
    sheet.reached("sections", report.sections, ground.sections);
    sheet.reached("faults from outside", report.faults() - inside, FAULTS);
    sheet.remark(format!(
        "{inside} dropped futures and blocked workers besides"
    ));
    sheet.remark(format!("{} leases lost", report.lost));
    sheet.remark(format!(
        "{} writes refused after their deadline",
        report.late_writes
    ));
    sheet.remark(format!("history {}", crew.history().display()));
    sheet.check(report.sections > 0 && report.writes > 0, || {
        "nothing ran".to_owned()
    });
    if ground.size == Size::Small && report.violations.is_empty() {
        crew.remove();
    }
}

/// Between two faults of one process: a full run leaves time for sections too.
fn pause(ground: &Ground) -> Duration {
    match ground.size {
        Size::Full if ground.store == Store::Redis => Duration::from_millis(2_500),
        Size::Full => Duration::from_millis(250),
        Size::Small => Duration::from_millis(600),
    }
}

fn on_redis(ground: &Ground, sheet: &Sheet, crew: &Crew) {
    let mut random = ground.random(1);
    // A log that is short is read fast after a restart.
    let mut server = ServerOptions::new()
        .append_only()
        .option("auto-aof-rewrite-min-size", &["4mb"])
        .start();
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
                    || crew.spawn(&job(crew, &proxy.url(), "k", seeds.next_u64()), None);
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
        let (over, pause) = (&over, pause(ground) * 2);
        scope.spawn(move || struck.run(pause, over));
        until_enough(ground, crew.history());
        over.store(true, Ordering::Relaxed);
        lanes
            .into_iter()
            .map(|lane| lane.join().expect("no panic"))
            .collect::<Vec<_>>()
    });
    end_all(sheet, hands);
    all_free(crew, &server.probe(), TTL);
}

fn in_memory(ground: &Ground, crew: &Crew) {
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
                    let mut job = job(crew, "memory://chaos", &prefix, seeds.next_u64());
                    // Pools of one process, in the place of processes.
                    job.lanes.extend(job.lanes.clone());
                    crew.spawn(&job, None)
                };
                let hand = start();
                lane.run(hand, start)
            })
        });
        let lanes: Vec<_> = lanes.collect();
        until_enough(ground, crew.history());
        over.store(true, Ordering::Relaxed);
        for lane in lanes {
            lane.join().expect("no panic").finish();
        }
    });
}

/// Counting, for short and for long, with many callers on few keys.
pub(super) fn job(crew: &Crew, url: &str, prefix: &str, seed: u64) -> Job {
    let count = |kind: &str, keys: u32, copies, watchdog, pause_us| Lane {
        keys: (0..keys)
            .map(|number| format!("{prefix}{kind}{number}"))
            .collect(),
        in_turn: false,
        copies,
        ttl_ms: u64::try_from(TTL.as_millis()).unwrap_or(0),
        wait_ms: 3_000,
        watchdog,
        mode: Mode::Alone,
        form: Form::Plain,
        fails: false,
        work: Work::Count { pause_us },
        times: 0,
        drop_one_in: 200,
        block_one_in: 4_000,
    };
    let lanes = vec![
        count("short", 100, 32, false, 200),
        count("short", 100, 8, true, 3_000),
        // Some are always inside, so that every fault meets leases that are held.
        count("long", 16, 6, false, 500_000),
        count("long", 16, 6, true, 900_000),
    ];
    Job {
        seed,
        ..crew.job(url, lanes)
    }
}

/// How long the sections may take: a full run goes on until its numbers are reached, but not for good.
fn limit(ground: &Ground) -> Duration {
    match ground.size {
        Size::Full => ground.time.max(PATIENCE),
        Size::Small => ground.time,
    }
}

/// Waits until the numbers are reached, or the time is over.
fn until_enough(ground: &Ground, history: &Path) {
    let started = Instant::now();
    let mut lines = BufReader::new(std::fs::File::open(history).expect("the history is there"));
    let (mut sections, mut faults) = (0, 0);
    let mut line = Vec::new();
    while started.elapsed() < limit(ground) {
        std::thread::sleep(Duration::from_millis(200));
        while lines
            .read_until(b'\n', &mut line)
            .is_ok_and(|length| length > 0)
        {
            if !line.ends_with(b"\n") {
                break;
            }
            sections += u64::from(line.starts_with(b"{\"note\":\"enter\""));
            faults += u64::from(is_outside_fault(&line));
            line.clear();
        }
        if ground.size == Size::Full && sections >= ground.sections && faults >= FAULTS {
            return;
        }
    }
}

/// What workers do to themselves is not counted.
fn is_outside_fault(line: &[u8]) -> bool {
    let fault = b"{\"note\":\"fault\",\"kind\":\"";
    let kind = line.strip_prefix(fault);
    kind.is_some_and(|kind| {
        !INSIDE
            .iter()
            .any(|inside| kind.starts_with(inside.as_bytes()))
    })
}
