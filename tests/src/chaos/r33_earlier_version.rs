//! Requirement 33: processes of the previous version and of this version queue for one key. No
//! sections overlap, no call is stuck, and fences grow across both versions.
//!
//! The earlier processes use a pinned copy of the previous version's wire format
//! ([`earlier_version`](crate::earlier_version)).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::crew::{Crew, Hand};
use super::ending::{all_free, end_all};
use super::ground::{Ground, REDIS, Requirement};
use super::job::{Lane, Work};
use super::mortals::must_be_fair;
use super::r33_sections::Earlier;
use super::sheet::Sheet;
use crate::lateness::Excuse;
use crate::oracle::{Mode, Report};
use crate::server::Server;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 33,
    what: "the version before this one beside this one on one key: no overlap, and no call is stuck for 5 s",
    stores: REDIS,
    run,
};

/// The requirement fails if a call waits for longer than this.
const BOUND: Duration = Duration::from_secs(5);
const TTL: Duration = Duration::from_secs(2);
/// Time limit of a call in the queue. It is longer than `BOUND`, so that a slow call gets its lock
/// late instead of an error.
const WAIT: Duration = Duration::from_secs(20);
/// Number of processes of each version in the scene `alone`.
const PROCESSES: usize = 2;

/// A scene: the modes of its processes. Each version runs one process for each entry of `modes`.
struct Scene {
    name: &'static str,
    modes: &'static [Mode],
}

const SCENES: [Scene; 3] = [
    Scene {
        name: "alone",
        modes: &[Mode::Alone; PROCESSES],
    },
    Scene {
        name: "readers and writers",
        modes: &[Mode::Reader, Mode::Reader, Mode::Alone],
    },
    Scene {
        name: "places",
        modes: &[Mode::Place(3); 3],
    },
];

fn run(ground: &Ground, sheet: &Sheet) {
    let time = Duration::from_secs(ground.count(30, 3));
    for scene in &SCENES {
        scene.play(ground, sheet, time);
    }
    let seconds = time.as_secs() * 3;
    sheet.reached("seconds of both versions on one key", seconds, 90);
}

impl Scene {
    fn play(&self, ground: &Ground, sheet: &Sheet, time: Duration) {
        let server = Server::start();
        let crew = ground.crew(&format!("earlier-{}", self.name.replace(' ', "-")));
        let excuse = Excuse::begin();
        let (earlier, present) = self.run_both(&crew, &server, time);
        end_all(sheet, present);
        all_free(&crew, &server.probe(), TTL);
        must_be_fair(&crew, &self.key(), BOUND, excuse);
        let report = crew.report();
        self.record(sheet, &report, earlier);
        if report.violations.is_empty() {
            crew.remove();
        }
    }

    /// Runs processes of both versions on the key for `time`. Returns the number of sections of the
    /// earlier version, and the processes of this version.
    fn run_both(&self, crew: &Crew, server: &Server, time: Duration) -> (u64, Vec<Hand>) {
        let ending = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (key, url) = (self.key(), server.url());
            let earlier = self.modes.iter().map(|mode| {
                let mut process = Earlier::connect(crew, &url, &key, *mode, TTL);
                let ending = &ending;
                scope.spawn(move || process.work(ending, WAIT))
            });
            let earlier: Vec<_> = earlier.collect();
            let jobs = self
                .modes
                .iter()
                .map(|mode| crew.job(&url, vec![lane(&key, *mode)]));
            let present: Vec<_> = jobs.map(|job| crew.spawn(&job, None)).collect();
            std::thread::sleep(time);
            ending.store(true, Ordering::Relaxed);
            let sections = earlier
                .into_iter()
                .map(|process| process.join().expect("no panic"));
            (sections.sum(), present)
        })
    }

    fn key(&self) -> String {
        self.name.replace(' ', "-")
    }

    fn record(&self, sheet: &Sheet, report: &Report, earlier: u64) {
        sheet.report(report);
        let present = report.sections - earlier;
        let longest = Duration::from_nanos(report.longest_wait);
        sheet.remark(format!(
            "{}: {earlier} sections of the earlier version, {present} of this one, longest wait {longest:.1?}",
            self.name
        ));
        sheet.check(earlier > 0 && present > 0, || {
            format!("{}: one version had no section", self.name)
        });
        sheet.check(report.lost == 0 && report.refused == 0, || {
            format!(
                "{}: {} lost, {} refused",
                self.name, report.lost, report.refused
            )
        });
    }
}

/// Returns the group of calls that one process of this version makes.
fn lane(key: &str, mode: Mode) -> Lane {
    let wait_ms = u64::try_from(WAIT.as_millis()).unwrap_or(0);
    let ttl_ms = u64::try_from(TTL.as_millis()).unwrap_or(0);
    let pause_us = 3_000;
    let work = match mode {
        Mode::Alone => Work::Count { pause_us },
        Mode::Reader | Mode::Place(_) => Work::Read { pause_us },
    };
    Lane {
        copies: 3,
        times: 0,
        work,
        ..Lane::stays(key, ttl_ms, 0).held_as(mode).waits(wait_ms)
    }
}
