//! Requirement 1 on independent masters (Redlock). No two leases of one key overlap while nodes are
//! killed, restarted with empty data, stopped and cut off.
//!
//! Each worker process reaches each node through a separate proxy, so a different minority of the
//! nodes may fail for each process. A node restarted with empty data has forgotten its votes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::crew::{Crew, Hand};
use super::ending::{all_free, end_all};
use super::faults::{Lane as FaultLane, Spans, Struck};
use super::ground::{Ground, Requirement, Size};
use super::r01_exclusion::job;
use super::sheet::Sheet;
use super::store::Store;
use super::storm::{self, TTL, WORKERS};
use crate::proxy::Proxy;
use crate::quorum::{self, Quorum};
use crate::random::Random;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 1,
    what: "exclusion on a quorum with failing nodes",
    stores: &[Store::Redlock],
    run,
};

const FAULTS: u64 = 500;
const SECTIONS: u64 = 50_000;
/// Option for the longest ttl that any client uses. A restarted node does not vote until this time
/// plus two seconds have passed.
const OPTIONS: &str = "max_ttl=1s";
/// The longest pause between two faults of one node. It is so short that two of three nodes
/// sometimes fail at the same time.
const PAUSE: Duration = Duration::from_secs(8);

fn run(ground: &Ground, sheet: &Sheet) {
    let (mut sections, mut faults) = (0, 0);
    let sizes: &[usize] = if ground.size == Size::Full {
        &[3, 5]
    } else {
        &[3]
    };
    for (number, nodes) in (10..).zip(sizes) {
        let crew = ground.crew(&format!("quorum-of-{nodes}"));
        let time = ground.time / u32::try_from(sizes.len()).unwrap_or(1);
        on_nodes(*nodes, time, &mut ground.random(number), sheet, &crew);
        let report = crew.report();
        sheet.report(&report);
        sections += report.sections;
        faults += report.faults() - storm::from_inside(&report);
        sheet.remark(format!(
            "{nodes} nodes: {} sections, {} leases lost",
            report.sections, report.lost
        ));
        sheet.check(report.writes > 0, || "nothing ran".to_owned());
        if report.violations.is_empty() {
            crew.remove();
        }
    }
    sheet.reached("sections", sections, SECTIONS);
    sheet.reached("faults from outside", faults, FAULTS);
}

fn on_nodes(count: usize, time: Duration, random: &mut Random, sheet: &Sheet, crew: &Crew) {
    let mut nodes = Quorum::older_than(count, Duration::from_secs(1));
    let networks: Vec<Vec<Proxy>> = (0..WORKERS).map(|_| nodes.proxies()).collect();
    let over = AtomicBool::new(false);
    let hands: Vec<Hand> = std::thread::scope(|scope| {
        let over = &over;
        let lanes = networks.iter().map(|proxies| {
            let mut lane = FaultLane {
                crew,
                proxies,
                spans: Spans::new(random.fork()),
                ttl: TTL,
                pause: Duration::from_millis(1_500),
                mortal: true,
                over,
            };
            let mut seeds = random.fork();
            let url = quorum::url(proxies.iter().map(Proxy::address), OPTIONS);
            scope.spawn(move || {
                let mut start = || crew.spawn(&job(crew, &url, "k", seeds.next_u64()), None);
                let hand = start();
                lane.run(hand, start)
            })
        });
        let lanes: Vec<_> = lanes.collect();
        for server in &mut nodes.servers {
            let mut struck = Struck {
                crew,
                server,
                spans: Spans::new(random.fork()),
                ttl: TTL,
            };
            scope.spawn(move || struck.run(PAUSE, over));
        }
        std::thread::sleep(time);
        over.store(true, Ordering::Relaxed);
        let lanes = lanes.into_iter();
        lanes.map(|lane| lane.join().expect("no panic")).collect()
    });
    end_all(sheet, hands);
    for probe in nodes.probes() {
        all_free(crew, &probe, TTL);
    }
}
