//! Requirement 12 in etcd and ZooKeeper: a killed holder's lock is free after its session has
//! ended.

use std::time::Duration;

use leasehold::__test::now;

use super::ensembles::Ensemble;
use super::ground::{Ground, Requirement, on_threads};
use super::job::Lane;
use super::sheet::Sheet;
use super::sighting::Sighting;
use super::span::nanos;
use super::store::Store;
use crate::oracle::Note;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 12,
    what: "a killed holder frees its lock with its session: a ttl of 1 s within 3.5 s",
    stores: &[Store::Etcd, Store::Zookeeper],
    run,
};

/// Bound on the time from the kill until the lock is free, with a ttl of 1 s. In etcd the session
/// lasts 2 s. The leader checks for ended leases every half second, and revokes them with a write.
/// In ZooKeeper, with a tick of half a second, the session lasts 2.5 s and ends at a tick.
const WITHIN: Duration = Duration::from_millis(3_500);

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(100, 6);
    let server = Ensemble::start(ground.store, 1);
    on_threads(
        6,
        total,
        &mut ground.random(41),
        |thread, mut random, next| {
            let crew = ground.crew(&format!("session-kills-{thread}"));
            let probe = server.probe();
            let mut watch = crew.watch();
            while let Some(number) = next() {
                let key = format!("killed-{number}");
                let lane = Lane::stays(&key, 1_000, 60_000).watched();
                let mut hand = crew.spawn(&crew.job(&server.url(), vec![lane]), None);
                if !watch.entered(Duration::from_secs(20), 1) {
                    sheet.fail(format!("{key}: the body did not begin"));
                    continue;
                }
                std::thread::sleep(random.duration(Duration::from_secs(2)));
                crew.fault("SIGKILL of a worker");
                hand.process().kill();
                let due = now();
                let limits = [Duration::ZERO, WITHIN * 2];
                let pause = Duration::from_millis(5);
                let Sighting { last, excuse } = Sighting::of(&*probe, &key, due, limits, pause);
                crew.note(&Note::Free {
                    key,
                    due,
                    at: due + nanos(last),
                    within: nanos(WITHIN + excuse),
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
