//! Requirement 1 while masters fail. Counts overlapping holders of one lock, for each value of
//! `replicas` (the number of replicas that must have a lock).
//!
//! Replication is asynchronous. If a master fails before a replica has a copy of a lock, the lock
//! is lost. Another call can then get the lock before the first holder's body has ended. Such
//! overlaps are counted. With `replicas=all` there must be none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::crew::{Crew, Hand};
use super::ending::end_all;
use super::fail_overs::{Failing, Hazard, KEYS};
use super::faults::{Lane as FaultLane, Spans};
use super::ground::{Ground, Requirement, Size};
use super::job::{Job, Lane, Work};
use super::sheet::Sheet;
use super::store::Store;
use super::tally::{Progress, Span, Tally};
use crate::cluster::Cluster;
use crate::random::Random;
use crate::sentinel::Deployment;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 1,
    what: "exclusion while masters fail",
    stores: &[Store::Sentinel, Store::Replicas, Store::Cluster],
    run,
};

const WORKERS: usize = 3;
/// A ttl longer than a fail-over, so that a lease may still be valid when its lock is lost with the
/// master.
pub(super) const TTL: Duration = Duration::from_secs(6);
const SECTIONS: u64 = 20_000;
const FAIL_OVERS: u64 = 15;

fn run(ground: &Ground, sheet: &Sheet) {
    let (wanted, share): (&[&str], u32) = match (ground.store, ground.size) {
        (Store::Sentinel, _) => (&["0"], 1),
        (_, Size::Full) => (&["0", "1", "all"], 3),
        (_, Size::Small) => (&["all"], 1),
    };
    let under_load = match ground.store {
        Store::Cluster => under_load::<Cluster>,
        _ => under_load::<Deployment>,
    };
    let goal = Goal {
        span: Span::of(ground, share),
        counted: Progress::Sections,
        progress: SECTIONS / u64::from(share),
        fail_overs: FAIL_OVERS / u64::from(share),
    };
    let (mut sections, mut fail_overs) = (0, 0);
    for (number, replicas) in (20..).zip(wanted) {
        let crew = ground.crew(&format!("replicas-{replicas}"));
        let mut random = ground.random(number);
        fail_overs += under_load(&crew, replicas, &goal, &mut random, sheet, job);
        let report = crew.report();
        sections += report.sections;
        let (ran, lost) = (report.sections, report.lost);
        let well = report.violations.is_empty();
        let overlaps = if *replicas == "all" {
            sheet.report(&report);
            report.count(crate::oracle::Kind::Overlap)
        } else {
            sheet.report_replicated(report)
        };
        sheet.remark(format!(
            "replicas = {replicas}: {overlaps} overlaps in {ran} sections, {lost} leases lost"
        ));
        sheet.check(ran > 0, || "nothing ran".to_owned());
        if well {
            crew.remove();
        }
    }
    sheet.reached("sections", sections, SECTIONS);
    sheet.reached("fail-overs", fail_overs, FAIL_OVERS);
}

/// The progress that a run must make while masters fail, and the run's shortest and longest
/// duration.
pub(super) struct Goal {
    pub(super) span: Span,
    pub(super) counted: Progress,
    pub(super) progress: u64,
    pub(super) fail_overs: u64,
}

/// Runs workers while masters fail, until `goal` is reached. Returns the number of fail-overs.
pub(super) fn under_load<D: Failing>(
    crew: &Crew,
    replicas: &str,
    goal: &Goal,
    random: &mut Random,
    sheet: &Sheet,
    job: fn(&Crew, &str, u64) -> Job,
) -> u64 {
    let mut deployment = D::start();
    let url = format!("{}?replicas={replicas}", deployment.url());
    let over = AtomicBool::new(false);
    let mut hazard = Hazard::new(crew, random.fork());
    let mut fail_overs = 0;
    let hands: Vec<Hand> = std::thread::scope(|scope| {
        let over = &over;
        let lanes: Vec<_> = (0..WORKERS)
            .map(|_| {
                let mut lane = FaultLane {
                    crew,
                    proxies: &[],
                    spans: Spans::new(random.fork()),
                    ttl: TTL / 3,
                    pause: Duration::from_secs(6),
                    mortal: true,
                    over,
                };
                let (mut seeds, url) = (random.fork(), url.clone());
                scope.spawn(move || {
                    let mut start = || crew.spawn(&job(crew, &url, seeds.next_u64()), None);
                    let hand = start();
                    lane.run(hand, start)
                })
            })
            .collect();
        let end = EndOnDrop(over);
        let started = Instant::now();
        let mut tally = Tally::of(crew.history(), goal.counted, None);
        fail_overs = hazard.run(&mut deployment, |fail_overs| {
            tally.read();
            let enough = tally.has(goal.progress, 0) && goal.fail_overs <= fail_overs;
            goal.span.goes_on(started, enough)
        });
        drop(end);
        let lanes = lanes.into_iter();
        lanes.map(|lane| lane.join().expect("no panic")).collect()
    });
    end_all(sheet, hands);
    fail_overs
}

/// Guard that sets the flag `over` when dropped, even by a panic. The other threads of the scope
/// inject faults until the flag is set. Without the guard, the scope would wait for them forever
/// after a panic.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn job(crew: &Crew, url: &str, seed: u64) -> Job {
    let [short, long] = KEYS;
    let count = |(kind, keys): (&str, u32), copies, watchdog, pause_us| Lane {
        keys: (0..keys).map(|number| format!("{kind}{number}")).collect(),
        copies,
        ttl_ms: u64::try_from(TTL.as_millis()).unwrap_or(0),
        watchdog,
        work: Work::Count { pause_us },
        times: 0,
        ..Lane::stays("", 0, 0).waits(300)
    };
    let lanes = vec![
        count(short, 4, false, 20_000),
        // These bodies may stay inside their locks for longer than a fail-over takes.
        count(long, 12, false, 5_000_000),
        count(long, 4, true, 8_000_000),
    ];
    Job {
        seed,
        ..crew.job(url, lanes)
    }
}
