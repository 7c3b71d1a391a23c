//! Requirement 12: a killed holder's lock is free after its ttl.

use std::time::Duration;

use leasehold::__test::now;

use super::ground::{Ground, Requirement, SERVERS, on_threads};
use super::job::Lane;
use super::sheet::Sheet;
use super::sighting::Sighting;
use super::site::Site;
use super::span::nanos;
use crate::oracle::Note;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 12,
    what: "a killed holder frees its lock within ttl + 200 ms",
    stores: SERVERS,
    run,
};

const TTL: Duration = Duration::from_millis(800);

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(100, 6);
    let site = Site::start(ground.store);
    on_threads(
        6,
        total,
        &mut ground.random(12),
        |thread, mut random, next| {
            let crew = ground.crew(&format!("kills-{thread}"));
            let probe = site.probe();
            let mut watch = crew.watch();
            while let Some(number) = next() {
                let key = format!("killed-{number}");
                let lane = Lane::stays(&key, 800, 60_000);
                let lane = if number % 2 == 0 {
                    lane.watched()
                } else {
                    lane
                };
                let mut hand = crew.spawn(&crew.job(&site.url(), vec![lane]), None);
                if !watch.entered(Duration::from_secs(20), 1) {
                    sheet.fail(format!("{key}: the body did not begin"));
                    continue;
                }
                std::thread::sleep(random.duration(TTL / 2));
                crew.fault("SIGKILL of a worker");
                hand.process().kill();
                let due = now();
                let limits = [Duration::ZERO, TTL * 4];
                let pause = Duration::from_millis(5);
                let Sighting { last, excuse } = Sighting::of(&*probe, &key, due, limits, pause);
                crew.note(&Note::Free {
                    key,
                    due,
                    at: due + nanos(last),
                    within: nanos(TTL + Duration::from_millis(200) + excuse),
                });
            }
            let report = crew.report();
            sheet.report(&report);
            if report.violations.is_empty() {
                crew.remove();
            }
        },
    );
    sheet.reached("kills", total, 100);
}
