//! Requirement 28: callers of any priority delay no renewal.
//!
//! The callers' threads have the greatest nice value (the lowest priority), and four threads that
//! spin compete with them. The keeper, the thread that renews leases, has the usual nice value. It
//! must not wait for work that a caller has begun and cannot continue.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::crew::Crew;
use super::ground::{Ground, REDIS, Requirement};
use super::job::{Lane, Work};
use super::sheet::Sheet;
use crate::oracle::Note;
use crate::redis_probe::RedisProbe;
use crate::server::Server;
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 28,
    what: "callers of any priority delay no renewal",
    stores: REDIS,
    run,
};

const SPINNING: usize = 4;
/// The competing threads spin for `SPIN`, then sleep for `BREAK`, and so on. Callers with the
/// greatest nice value can only work during `BREAK`, so their unfinished work waits for the next
/// `BREAK`.
const SPIN: Duration = Duration::from_millis(700);
const BREAK: Duration = Duration::from_millis(10);
const TTL_MS: u64 = 1_000;
const RUN: Duration = Duration::from_secs(8);
/// Interval between two readings of the lease's remaining time.
const LOOK: Duration = Duration::from_millis(5);
const LIMIT: Duration = Duration::from_secs(60);
const LEASE: &str = "lease";
const ALONE: &str = "alone";
/// Number of runs without a result (`Run::Void`) after which the test gives up.
const MOST_VOID: u64 = 10;

/// The result of one run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Kept,
    Lost,
    /// No result. The machine was too busy for any renewal: a lease in a process without callers
    /// was also lost.
    Void,
}

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(10, 1);
    for (callers, idle) in [("usual", false), ("idle", true)] {
        let (mut kept, mut lost, mut void) = (0, 0, 0);
        let mut shortest = Duration::MAX;
        while kept + lost < total && void < MOST_VOID {
            let (run, rest) = play(ground, sheet, idle);
            shortest = shortest.min(rest);
            match run {
                Run::Kept => kept += 1,
                Run::Lost => lost += 1,
                Run::Void => void += 1,
            }
        }
        sheet.remark(format!(
            "{callers} callers: {kept} leases kept, never less than {shortest:?} left, {lost} lost, \
             {void} runs on a machine that was too busy"
        ));
        if idle {
            sheet.check(lost == 0, || {
                format!("beside idle callers {lost} leases were lost")
            });
            sheet.reached("leases of 1 s kept for 8 s beside idle callers", kept, 10);
        }
    }
}

/// Holds a lease in a pool with many callers, and another lease in a process without callers, while
/// other threads spin. With `idle`, the callers have the greatest nice value. Returns the result,
/// and the shortest time that the lease in the pool with callers had left.
fn play(ground: &Ground, sheet: &Sheet, idle: bool) -> (Run, Duration) {
    let crew = ground.crew("priority");
    let server = Server::start();
    let lease = |key| Lane {
        work: Work::Wait { ms: 60_000 },
        ..Lane::stays(key, TTL_MS, 0).watched()
    };
    let busy = Lane {
        keys: (0..4).map(|number| format!("busy{number}")).collect(),
        copies: 8,
        work: Work::Count { pause_us: 0 },
        times: 0,
        ..Lane::stays("", TTL_MS, 0).waits(TTL_MS)
    };
    let apart = Lane {
        keys: (0..64).map(|number| format!("apart{number}")).collect(),
        ..busy.clone()
    };
    let alone = crew.spawn(&crew.job(&server.url(), vec![lease(ALONE)]), None);
    let mut job = crew.job(&server.url(), vec![busy, apart, lease(LEASE)]);
    job.idle = idle;
    job.one_pool = true;
    let mut hand = crew.spawn(&job, None);
    let is_held = |key: &str| server.probe().get(&format!("lock:{key}")).is_some();
    wait::until("the leases are taken", LIMIT, || {
        is_held(LEASE) && is_held(ALONE)
    });
    let idle_threads = idle_threads(hand.process().id());
    sheet.check((idle_threads >= job.threads) == idle, || {
        format!("{idle_threads} threads of the worker are idle")
    });
    let probe = server.probe();
    let rest = beside_spinning_threads(|| shortest_rest(&probe));
    sheet.faults("threads spin beside callers", 1);
    drop((hand, alone));
    sheet.sections(crew.report().sections);
    // Both the key and the notes are checked, because the key may be deleted before its holder has
    // noted the loss.
    let kept = |key: &str| is_held(key) && !is_lost(&crew, key);
    let run = match (kept(LEASE), kept(ALONE)) {
        (true, _) => Run::Kept,
        (false, true) => Run::Lost,
        (false, false) => Run::Void,
    };
    crew.remove();
    (run, rest)
}

fn is_lost(crew: &Crew, key: &str) -> bool {
    let lost = |note: &Note| matches!(note, Note::Lost { key: of, .. } if of == key);
    crew.watch().wait_for(Duration::ZERO, lost).is_some()
}

/// Returns the number of threads with the greatest nice value in a process.
fn idle_threads(process: u32) -> usize {
    const NICE: usize = 19;
    const IDLE: &str = "19";
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("a Linux process");
    let is_idle = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = task.and_then(|task| std::fs::read_to_string(task.path().join("stat")));
        let stat = stat.unwrap_or_default();
        // The second field is the thread's name in parentheses, which may contain spaces. So fields
        // are counted after the closing parenthesis.
        let rest = stat.rsplit(')').next().unwrap_or_default();
        rest.split_whitespace().nth(NICE - 3) == Some(IDLE)
    };
    tasks.map(is_idle).filter(|idle| *idle).count()
}

/// Returns the shortest remaining time of the lease during the run, or zero if the lease ended.
fn shortest_rest(probe: &RedisProbe) -> Duration {
    let key = format!("lock:{LEASE}");
    let (end, mut shortest) = (Instant::now() + RUN, Duration::MAX);
    while Instant::now() < end {
        shortest = shortest.min(probe.ttl(&key).unwrap_or_default());
        std::thread::sleep(LOOK);
    }
    shortest
}

fn beside_spinning_threads<T>(work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..SPINNING {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    while began.elapsed() < SPIN {
                        std::hint::spin_loop();
                    }
                    std::thread::sleep(BREAK);
                }
            });
        }
        let done = work();
        over.store(true, Ordering::Relaxed);
        done
    })
}
