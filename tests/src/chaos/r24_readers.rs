//! Requirement 24 for readers and writers: no other holder is inside together with a writer, and no
//! call starves. A killed process delays the others for no longer than its lease.

use std::time::Duration;

use leasehold::__test::now;

use super::crew::Crew;
use super::ending::end_all;
use super::ground::{Ground, Requirement, SERVERS, connect, runtime};
use super::job::{Lane, Work};
use super::mortals::{live, must_be_fair, record, rounds};
use super::sheet::Sheet;
use super::site::Site;
use super::span::nanos;
use crate::lateness::Excuse;
use crate::oracle::{Mode, Note};
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 24,
    what: "readers and writers under kills: 5 dead readers, the next writer after at most 6 s",
    stores: SERVERS,
    run,
};

const KEY: &str = "catalog";
const DEAD: u64 = 5;
/// The longest ttl that a reader or writer requests.
const TTL: Duration = Duration::from_secs(2);
const BOUND: Duration = Duration::from_secs(6);
const LIMIT: Duration = Duration::from_secs(30);

fn run(ground: &Ground, sheet: &Sheet) {
    mixed(ground, sheet);
    let total = rounds(ground, sheet, "readers", round);
    sheet.reached("dead readers", DEAD * total, 200);
}

/// Runs 16 readers and 4 writers on one key in 4 processes, which are killed at random times.
fn mixed(ground: &Ground, sheet: &Sheet) {
    let crew = ground.crew("readers");
    let site = Site::start(ground.store);
    let time = Duration::from_secs(ground.count(60, 6));
    let excuse = Excuse::begin();
    let hands = live(&crew, &site.url(), &lanes(), time, &mut ground.random(240));
    end_all(sheet, hands);
    site.all_free(&crew, TTL);
    must_be_fair(&crew, KEY, BOUND, excuse);
    let report = crew.report();
    record(sheet, &report);
    sheet.reached("seconds of readers and writers", time.as_secs(), 60);
    sheet.check(report.writes > 0, || "no writer wrote".to_owned());
    if report.violations.is_empty() {
        crew.remove();
    }
}

/// Returns the lanes (groups of callers) of one process: readers with short leases, readers with
/// long leases, and one writer.
fn lanes() -> Vec<Lane> {
    let lane = |copies, mode, ttl_ms, work| Lane {
        copies,
        ttl_ms,
        work,
        times: 0,
        ..Lane::stays(KEY, 0, 0).held_as(mode).waits(20_000)
    };
    let reader = |copies, ttl_ms, pause_us| {
        let work = Work::Read { pause_us };
        lane(copies, Mode::Reader, ttl_ms, work)
    };
    let writer = lane(1, Mode::Alone, 2_000, Work::Count { pause_us: 5_000 });
    vec![
        reader(1, 400, 20_000),
        reader(1, 2_000, 300_000),
        reader(2, 1_000, 5_000).watched(),
        writer.watched(),
    ]
}

/// Kills readers inside the lock while a writer waits for it. After the last lease of these readers
/// has ended, the writer must enter within 1.2 s.
fn round(crew: &Crew, site: &Site, sheet: &Sheet, number: u64) {
    let key = format!("read-{number}");
    let queued = site.queues();
    let runtime = runtime(2);
    let pool = runtime.block_on(connect(&site.url()));
    let mut watch = crew.watch();
    while watch.next_note().is_some() {}
    let readers = (1..=DEAD).map(|reader| {
        let ttl = u64::try_from(TTL.as_millis()).unwrap_or(0) * reader / DEAD;
        let lane = Lane::stays(&key, ttl, 60_000).held_as(Mode::Reader);
        crew.spawn(&crew.job(&site.url(), vec![lane.watched()]), None)
    });
    let mut readers: Vec<_> = readers.collect();
    if !watch.entered(LIMIT, readers.len()) {
        sheet.fail(format!("{key}: the readers are not inside"));
        return;
    }
    let writer = runtime.spawn(pool.lock(&*key).ttl(TTL).wait(LIMIT).acquire());
    wait::until("the writer queues", LIMIT, || queued(&key) == 1);
    for reader in &mut readers {
        crew.fault("SIGKILL of a reader");
        reader.process().kill();
    }
    let (due, excuse) = (now(), Excuse::begin());
    let guard = runtime.block_on(writer).expect("no panic");
    let at = now();
    sheet.sections(1);
    sheet.check(guard.is_ok(), || format!("{key}: {guard:?}"));
    // A waiting writer repeats its request at intervals of at most 0.75 s. So it may enter up to
    // 0.75 s after the end of the last lease. The rest of the 1.2 s is slack.
    let within = TTL + Duration::from_millis(1_200) + excuse.so_far();
    crew.note(&Note::Free {
        key,
        due,
        at,
        within: nanos(within.min(BOUND)),
    });
}
