//! Requirement 8: a client never releases or renews the lock of another holder.

use std::time::Duration;

use leasehold::__test::interleave;

use super::ground::{ALL, Ground, Requirement, connect, local_runtime, on_threads};
use super::sheet::Sheet;
use super::store::Store;
use crate::probe::Probe;
use crate::server::Server;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 8,
    what: "never releases or renews another's lock",
    stores: ALL,
    run,
};

const TTL: Duration = Duration::from_millis(300);
const FOREIGN: Duration = Duration::from_secs(600);

fn run(ground: &Ground, sheet: &Sheet) {
    // On PostgreSQL each request is a commit, so there are fewer requests.
    let (wanted, small) = match ground.store {
        Store::Postgres => (50_000, 4_000),
        _ => (1_000_000, 40_000),
    };
    let total = ground.count(wanted, small);
    let place = ground.place("ownership");
    let seed = ground.random(8).next_u64();
    match local_runtime().block_on(interleave(&place.url, seed, total)) {
        Ok(counts) => {
            sheet.reached("requests interleaved", counts.requests, wanted);
            sheet.remark(format!("{} met another's lock", counts.foreign));
        }
        Err(difference) => sheet.overlap(difference),
    }
    if ground.store == Store::Redis {
        thefts(ground, sheet);
    }
}

/// Lets a probe (the thief) take the key of a lock by force. The holder's next renewal or release
/// must not change the thief's lock.
fn thefts(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(1_000, 40);
    let server = Server::start();
    on_threads(10, total, &mut ground.random(80), |_, mut random, next| {
        let probe = server.probe().namespace("lock:");
        let runtime = local_runtime();
        let pool = runtime.block_on(connect(&server.url()));
        while let Some(number) = next() {
            let key = format!("stolen-{number}");
            let request = pool.lock(&*key).ttl(TTL).watchdog();
            let guard = runtime.block_on(request.acquire()).expect("it is free");
            std::thread::sleep(random.duration(TTL / 3));
            probe.steal(&key, FOREIGN);
            std::thread::sleep(random.duration(TTL / 2));
            drop(runtime.block_on(guard.release()));
            let long = probe.ttl(&key).is_some_and(|left| left > FOREIGN / 2);
            if !(long && probe.untouched(&key)) {
                sheet.overlap(format!("{key}: the thief's lock was touched"));
            }
        }
    });
    sheet.faults("lock taken by force", total);
    sheet.sections(total);
    sheet.reached("thefts", total, 1_000);
}
