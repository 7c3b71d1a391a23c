//! Requirement 2: a process is stopped until after the end of its lease. After it resumes, no
//! further poll of the body begins.

use std::time::Duration;

use super::ground::{ALL, Ground, Requirement, on_threads};
use super::job::{Job, Lane};
use super::sheet::Sheet;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 2,
    what: "no body poll at or after D, after SIGSTOP past the ttl",
    stores: ALL,
    run,
};

const TTL: Duration = Duration::from_millis(250);
const LIMIT: Duration = Duration::from_secs(20);

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(1_000, 24);
    let place = ground.place("stops");
    on_threads(
        ground.count(10, 4),
        total,
        &mut ground.random(20),
        |thread, mut random, next| {
            let crew = ground.crew(&format!("stops-{thread}"));
            let stays = |kind: &str| Lane {
                times: 0,
                ..Lane::stays(&format!("{kind}{thread}"), 250, 60_000).waits(2_000)
            };
            let lanes = vec![stays("plain"), stays("watched").watched()];
            let job = Job {
                threads: 1,
                ..crew.job(&place.url, lanes)
            };
            let mut hand = crew.spawn(&job, None);
            let mut watch = crew.watch();
            let mut stops = 0;
            let mut inside = watch.entered(LIMIT, 2);
            while inside && next().is_some() {
                std::thread::sleep(random.duration(TTL / 4));
                crew.fault("SIGSTOP of a worker");
                hand.process().pause();
                std::thread::sleep(TTL + random.duration(TTL));
                hand.process().resume();
                stops += 1;
                // The stop lasted longer than both leases, so the process must take both keys
                // again.
                inside = watch.entered(LIMIT, 2);
            }
            sheet.check(inside, || {
                "a lock was not taken again after a stop".to_owned()
            });
            drop(hand);
            let report = crew.report();
            sheet.report(&report);
            sheet.check(report.lost >= stops, || {
                format!("{stops} stops, and only {} leases lost", report.lost)
            });
            if report.violations.is_empty() {
                crew.remove();
            }
        },
    );
    sheet.reached("stops", total, 1_000);
}
