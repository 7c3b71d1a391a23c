//! Requirement 1 in a cluster of etcd or ZooKeeper. No two leases of one key overlap while leaders
//! are killed, stopped and cut off. If any one member is lost, no lock is lost.
//!
//! Each worker process reaches each member through a separate proxy. A process loses its sessions
//! if it is stopped for longer than they last. The sessions of a killed process last until they
//! expire.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold::__test::now;

use super::crew::{Crew, Hand};
use super::ending::end_all;
use super::ensembles::{Ensemble, Times};
use super::faults::{Lane as FaultLane, Spans};
use super::ground::{Ground, Requirement};
use super::job::{Job, Lane};
use super::members::{Members, Wires};
use super::r01_exclusion;
use super::sheet::Sheet;
use super::span::nanos;
use super::store::Store;
use super::storm;
use super::tally::{Progress, Span, Tally};
use crate::oracle::Note;
use crate::pipe::Pipe;
use crate::random::Random;
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 1,
    what: "exclusion in a cluster whose leaders fail",
    stores: &[Store::Etcd, Store::Zookeeper],
    run,
};

const WORKERS: usize = 4;
const MEMBERS: usize = 3;
const SECTIONS: u64 = 20_000;
const FAULTS: u64 = 300;
const LEADERS: u64 = 12;

/// The ttls of the locks. Some faults are shorter than these ttls and than the sessions, and others
/// are longer.
const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(4);

fn run(ground: &Ground, sheet: &Sheet) {
    let crew = ground.crew("sessions");
    let leaders = on_members(ground, &mut ground.random(40), sheet, &crew);
    let report = crew.report();
    sheet.report(&report);
    let inside = storm::from_inside(&report);
    sheet.reached("sections", report.sections, SECTIONS);
    sheet.reached("faults from outside", report.faults() - inside, FAULTS);
    sheet.reached("changes of the leader", leaders, LEADERS);
    sheet.remark(format!(
        "{inside} dropped futures and blocked workers besides"
    ));
    sheet.remark(format!("{} leases lost", report.lost));
    sheet.remark(format!(
        "{} writes refused after their deadline",
        report.late_writes
    ));
    sheet.check(report.sections > 0 && report.writes > 0, || {
        "nothing ran".to_owned()
    });
    if report.violations.is_empty() {
        crew.remove();
    }
}

/// Runs the workers and the faults. Returns the number of times that another member became the
/// leader.
fn on_members(ground: &Ground, random: &mut Random, sheet: &Sheet, crew: &Crew) -> u64 {
    let mut servers = Ensemble::start(ground.store, MEMBERS);
    let times = servers.times();
    let networks: Vec<Vec<Pipe>> = (0..WORKERS).map(|_| servers.pipes()).collect();
    let over = AtomicBool::new(false);
    let mut leaders = 0;
    let hands: Vec<Hand> = std::thread::scope(|scope| {
        let over = &over;
        let lanes = networks.iter().map(|pipes| {
            let mut lane = FaultLane {
                crew,
                proxies: &[],
                spans: Spans::new(random.fork()),
                ttl: LONG,
                pause: Duration::from_secs(6),
                mortal: true,
                over,
            };
            let mut wires = Wires {
                crew,
                pipes,
                random: random.fork(),
                longest: times.session,
                pause: Duration::from_secs(6),
                over,
            };
            scope.spawn(move || wires.run());
            let mut seeds = random.fork();
            let url = servers.url_over(pipes);
            scope.spawn(move || {
                let mut start = || crew.spawn(&job(crew, &url, seeds.next_u64()), None);
                let hand = start();
                lane.run(hand, start)
            })
        });
        let lanes: Vec<_> = lanes.collect();
        let end = EndOnDrop(over);
        let mut members = Members {
            crew,
            servers: &mut servers,
            random: random.fork(),
            longest: times.session,
        };
        let started = Instant::now();
        let span = Span::of(ground, 1);
        let mut tally = Tally::of(crew.history(), Progress::Sections, None);
        leaders = members.run(Duration::from_secs(4), |leaders| {
            tally.read();
            let enough = tally.has(SECTIONS, FAULTS) && LEADERS <= leaders;
            span.goes_on(started, enough)
        });
        drop(end);
        let lanes = lanes.into_iter();
        lanes.map(|lane| lane.join().expect("no panic")).collect()
    });
    end_all(sheet, hands);
    all_free(crew, &servers, times);
    leaders
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

/// Returns the job of `r01_exclusion` with two ttls. A process has a separate session for each ttl.
/// Callers with different ttls contend for the same keys.
fn job(crew: &Crew, url: &str, seed: u64) -> Job {
    let mut job = r01_exclusion::job(crew, url, "k", seed);
    for (number, lane) in job.lanes.iter_mut().enumerate() {
        let ttl = if number % 2 == 0 { SHORT } else { LONG };
        *lane = Lane {
            ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(0),
            wait_ms: 8_000,
            ..lane.clone()
        };
    }
    job
}

/// Checks that no lock is left. All keys must be free after the sessions of killed processes have
/// ended.
fn all_free(crew: &Crew, servers: &Ensemble, times: Times) {
    let due = now();
    let within = times.session + times.noticed + Duration::from_millis(500);
    let free = wait::try_until(within, || servers.left().is_empty());
    let key = servers.left().pop().unwrap_or_else(|| "all".to_owned());
    let at = free.map_or_else(|| now() + nanos(within), |_| now());
    crew.note(&Note::Free {
        key,
        due,
        at,
        within: nanos(within),
    });
}
