//! Requirement 34 (each order is made once) under every fault of the processes, their networks and
//! the server. A second part empties the server again and again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::cmd;

use super::crew::Crew;
use super::ending::end_all;
use super::ground::{Ground, Size, local_runtime};
use super::job::{Form, Job, Lane, Work};
use super::mortals;
use super::orders::Orders;
use super::sheet::Sheet;
use super::storm::{self, Storm, TTL};
use super::tally::Progress;
use crate::oracle::{Note, Report};
use crate::server::Server;

/// Time for which a result is kept. It is longer than the run.
pub(super) const REPLAY_MS: u64 = 60 * 60 * 1_000;
/// Number of sets of keys in the run with random faults (the storm). The seed of a process selects
/// its set. The process that replaces a killed one has a new seed, so it usually uses other keys.
const SETS: u64 = 6;
/// Number of keys of each kind in a set, in a full run and in a small run.
const KEYS: u32 = 1_000;
const FEW_KEYS: u32 = 20;
/// Numbers of answers and of faults that the run with random faults (the storm) must reach. Dropped
/// calls and blocked threads, which workers cause themselves, do not count as faults.
const ANSWERS: u64 = 200_000;
const FAULTS: u64 = 300;
/// Number of times that the server is emptied.
const EMPTIED: u64 = 200;
const LONG: Duration = Duration::from_secs(60);
/// Time limit of the run with random faults (the storm), if it does not reach `ANSWERS` and
/// `FAULTS` earlier.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// Prefix of the keys of orders. A unique key of the table ensures that each order is made once,
/// even if the store loses a result. The kept results of orders expire after `SOON_MS`, so that
/// bodies run all the time.
const ORDERS: &str = "order";
const SOON_MS: u64 = 1_000;
/// Prefix of the keys of counters. A counter has no unique key, so only the lock and the kept
/// result prevent a second body from counting again.
const COUNTERS: &str = "count";

/// Returns groups of calls ("clicks") for one set of keys: `keys` orders and as many counters.
///
/// Each click on a counter sends one of two different requests, and the first result is kept. So
/// about half of the later clicks are refused: the kept result belongs to the other request. Some
/// bodies fail, and some block their thread in one poll beyond the end of their lease. No result of
/// such bodies may be kept.
pub(super) fn lanes(set: u64, keys: u32, ttl: Duration) -> Vec<Lane> {
    let lane = |kind: &str, copies, watchdog, work| Lane {
        keys: names(kind, set, keys).collect(),
        copies,
        watchdog,
        ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(0),
        form: Form::Replayed {
            ms: if kind == COUNTERS { REPLAY_MS } else { SOON_MS },
            requests: if kind == COUNTERS { 2 } else { 1 },
        },
        work,
        times: 0,
        drop_one_in: 200,
        ..Lane::stays("", 0, 0).waits(3_000)
    };
    let order = Work::Order { pause_us: 2_000 };
    let count = Work::Count { pause_us: 5_000 };
    let blocking = Work::Block {
        ms: u64::try_from(ttl.as_millis()).unwrap_or(0) * 3 / 2,
    };
    let mut failing = lane(COUNTERS, 2, false, count);
    failing.fails = true;
    vec![
        lane(ORDERS, 8, false, order),
        lane(ORDERS, 4, true, order),
        lane(COUNTERS, 8, false, count),
        lane(COUNTERS, 4, true, count),
        lane(COUNTERS, 1, false, blocking),
        failing,
    ]
}

fn names(kind: &str, set: u64, keys: u32) -> impl Iterator<Item = String> {
    (0..keys).map(move |number| format!("{kind}-{set}-{number}"))
}

/// Creates the table of orders.
pub(super) fn table(crew: &Crew) {
    local_runtime().block_on(Orders::create(&crew.ledger()));
}

/// Reports how many calls a body answered, and how many a kept result answered. Neither number may
/// be zero.
pub(super) fn record(sheet: &Sheet, what: &str, report: &Report) {
    let ran = report.answered - report.replayed;
    sheet.remark(format!(
        "{what}: {ran} calls answered by a body, {} from a result; {} bodies began, {} leases lost",
        report.replayed, report.sections, report.lost
    ));
    sheet.check(report.replayed > 0 && ran > 0, || {
        format!("{what}: nothing was replayed, or nothing ran")
    });
}

/// Runs the clicks under every fault. The server writes every change to disk before it answers, so
/// it loses no kept result. Once a call has got the result of a counter, no later call may get a
/// different result.
pub(super) fn storm(ground: &Ground, sheet: &Sheet) {
    let crew = ground.crew("replay-storm");
    table(&crew);
    for key in (0..SETS).flat_map(|set| names(COUNTERS, set, KEYS)) {
        crew.note(&Note::Durable { key });
    }
    let storm = Storm {
        job: match ground.size {
            Size::Full => job,
            Size::Small => small_job,
        },
        beside: &storm::alone,
        awaited: None,
        progress: Progress::Answers,
        enough: ANSWERS,
        faults: FAULTS,
        limit: match ground.size {
            Size::Full => PATIENCE,
            Size::Small => ground.time,
        },
    };
    storm.rage(ground, sheet, &crew);
    let report = crew.report();
    sheet.report(&report);
    record(sheet, "under faults", &report);
    let faults = report.faults() - storm::from_inside(&report);
    sheet.reached("answers under faults", report.answered, ANSWERS);
    sheet.reached("faults from outside", faults, FAULTS);
    if report.violations.is_empty() {
        crew.remove();
    }
}

fn job(crew: &Crew, url: &str, _: &str, seed: u64) -> Job {
    Job {
        seed,
        ..crew.job(url, lanes(seed % SETS, KEYS, TTL))
    }
}

fn small_job(crew: &Crew, url: &str, _: &str, seed: u64) -> Job {
    Job {
        seed,
        ..crew.job(url, lanes(0, FEW_KEYS, TTL))
    }
}

/// Empties the server again and again, so that it loses all locks and all results. Then two bodies
/// may be inside one lock, and the body of an order may run again. The unique key of the table
/// still allows only one order.
pub(super) fn emptied(ground: &Ground, sheet: &Sheet) {
    const KEYS: u32 = 300;
    let crew = ground.crew("replay-emptied");
    table(&crew);
    let server = Server::start();
    let times = ground.count(EMPTIED, 30);
    let pause = Duration::from_millis(250);
    let time = pause * u32::try_from(times).unwrap_or(u32::MAX);
    let over = AtomicBool::new(false);
    let mut random = ground.random(35);
    let mut pauses = random.fork();
    let mut done = 0;
    let hands = std::thread::scope(|scope| {
        let (crew, server, over, random) = (&crew, &server, &over, &mut random);
        let living = scope.spawn(move || {
            let lanes = lanes(0, KEYS, TTL);
            let hands = mortals::live(crew, &server.url(), &lanes, time, random);
            over.store(true, Ordering::Relaxed);
            hands
        });
        let probe = server.probe();
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(pause / 2 + pauses.duration(pause / 2));
            crew.fault("FLUSHALL");
            probe.run::<()>(&cmd("FLUSHALL"));
            done += 1;
        }
        living.join().expect("no panic")
    });
    // On a busy machine, possibly no call has got a kept result yet. So the run waits for such a
    // call.
    let replayed = |note: &Note| matches!(note, Note::Answered { ran: None, .. });
    let mut watch = crew.watch();
    sheet.check(watch.wait_for(LONG, replayed).is_some(), || {
        "nothing was replayed".to_owned()
    });
    end_all(sheet, hands);
    let report = crew.report();
    record(sheet, "on a server that is emptied", &report);
    let well = report.violations.is_empty();
    let overlaps = sheet.report_replicated(report);
    sheet.remark(format!("{overlaps} overlaps of locks that were lost"));
    sheet.reached("FLUSHALL", done, EMPTIED);
    if well {
        crew.remove();
    }
}
