//! Requirement 14: a node restarted with empty data while a lock is held does not help another call
//! to get this lock.

use std::time::Duration;

use super::ground::{Ground, Requirement, connect, on_threads, runtime};
use super::sheet::Sheet;
use super::store::Store;
use super::witness::Witness;
use crate::proxy::{Mode, Proxy};
use crate::quorum::{self, Quorum};

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 14,
    what: "a Redlock node that is restarted empty during a hold is quarantined",
    stores: &[Store::Redlock],
    run,
};

const TTL: Duration = Duration::from_secs(1);
const OPTIONS: &str = "max_ttl=100ms";

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(100, 2);
    on_threads(
        ground.count(6, 2),
        total,
        &mut ground.random(14),
        |thread, mut random, next| {
            let crew = ground.crew(&format!("quarantine-{thread}"));
            let witness = Witness::new(&crew);
            let mut nodes = Quorum::older_than(3, TTL);
            let runtime = runtime(2);
            let proxies = nodes.proxies();
            let url = quorum::url(proxies.iter().map(Proxy::address), OPTIONS);
            let one = runtime.block_on(connect(&url));
            let two = runtime.block_on(connect(&nodes.url()));
            // The pool `one` no longer reaches the third node, so its locks are only on two nodes.
            // The code below restarts one of these two. Without a quarantine, the restarted node
            // and the third node would be a majority, and grant the same lock to the pool `two`.
            proxies[2].set(Mode::Refuse);
            proxies[2].cut();
            while let Some(number) = next() {
                let key = format!("held-{number}");
                let held = one.lock(&*key).ttl(TTL).wait(TTL * 10).acquire();
                let Ok(held) = runtime.block_on(held) else {
                    sheet.fail(format!(
                        "{key}: two of three nodes are there and do not vote"
                    ));
                    continue;
                };
                let inside = witness.enter(&key, &held);
                std::thread::sleep(random.duration(TTL / 4));
                crew.fault("restart of a node with nothing on disk");
                nodes.servers[1].restart();
                let second = two.lock(&*key).ttl(TTL).wait(TTL * 3 / 2).acquire();
                if let Ok(second) = runtime.block_on(second) {
                    drop(witness.enter(&key, &second));
                }
                drop((inside, held));
                nodes.grow_older_than(TTL);
            }
            let report = crew.report();
            sheet.report(&report);
            if report.violations.is_empty() {
                crew.remove();
            }
        },
    );
    sheet.reached("restarts during a hold", total, 100);
}
