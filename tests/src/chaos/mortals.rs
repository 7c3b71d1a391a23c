//! Workers killed at random moments, and their replacements.

use std::time::{Duration, Instant};

use super::crew::{Crew, Hand};
use super::ground::{Ground, on_threads};
use super::job::{Job, Lane};
use super::sheet::Sheet;
use super::site::Site;
use super::span::nanos;
use crate::lateness::Excuse;
use crate::oracle::{Note, Report};
use crate::random::Random;

/// Number of concurrent processes.
const PROCESSES: usize = 4;
/// Greatest random part of a process's life. In a short run, the greatest part is half the run
/// instead. Each life also has a fixed part, a tenth of the greatest random part.
const LIFE: Duration = Duration::from_secs(10);

/// Runs the calls of `lanes` for `time` in four processes. Each process is killed at random times
/// and replaced. Returns the last processes, which still run.
pub(super) fn live(
    crew: &Crew,
    url: &str,
    lanes: &[Lane],
    time: Duration,
    random: &mut Random,
) -> Vec<Hand> {
    let end = Instant::now() + time;
    std::thread::scope(|scope| {
        let lives = (0..PROCESSES).map(|_| {
            let mut random = random.fork();
            scope.spawn(move || {
                let start = |random: &mut Random| {
                    let job = Job {
                        seed: random.next_u64(),
                        ..crew.job(url, lanes.to_vec())
                    };
                    crew.spawn(&job, None)
                };
                let mut hand = start(&mut random);
                loop {
                    let life = LIFE.min(time / 2) / 10 + random.duration(LIFE.min(time / 2));
                    if Instant::now() + life >= end {
                        std::thread::sleep(end.saturating_duration_since(Instant::now()));
                        return hand;
                    }
                    std::thread::sleep(life);
                    crew.fault("SIGKILL of a worker");
                    hand.process().kill();
                    hand = start(&mut random);
                }
            })
        });
        let lives: Vec<_> = lives.collect();
        let lives = lives.into_iter().map(|life| life.join().expect("no panic"));
        lives.collect()
    })
}

/// Makes the oracle check that no call waits for `key` longer than `within` plus the measured
/// delays of this machine.
pub(super) fn must_be_fair(crew: &Crew, key: &str, within: Duration, excuse: Excuse) {
    crew.note(&Note::Fair {
        key: key.to_owned(),
        within: nanos(within + excuse.so_far()),
    });
}

/// Adds the oracle's report to the sheet. Checks that bodies have run, and that processes were
/// killed.
pub(super) fn record(sheet: &Sheet, report: &Report) {
    sheet.report(report);
    let kills = report.faults();
    let longest = Duration::from_nanos(report.longest_wait);
    sheet.remark(format!(
        "{} sections, {kills} kills, longest wait {longest:.1?}",
        report.sections
    ));
    sheet.check(report.sections > 0 && kills > 0, || {
        "nothing ran".to_owned()
    });
}

/// Runs `round` forty times (fewer in a small run) on one server, with up to four rounds at the
/// same time. Each round has new workers. Returns the number of rounds.
pub(super) fn rounds(
    ground: &Ground,
    sheet: &Sheet,
    name: &str,
    round: fn(&Crew, &Site, &Sheet, u64),
) -> u64 {
    let total = ground.count(40, 2);
    let site = Site::start(ground.store);
    on_threads(
        ground.count(4, 2),
        total,
        &mut ground.random(24),
        |thread, _, next| {
            let crew = ground.crew(&format!("{name}-{thread}"));
            while let Some(number) = next() {
                round(&crew, &site, sheet, number);
            }
            let report = crew.report();
            sheet.report(&report);
            if report.violations.is_empty() {
                crew.remove();
            }
        },
    );
    total
}
