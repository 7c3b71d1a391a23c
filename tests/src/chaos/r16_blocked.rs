//! Requirement 16: the watchdog renews a lock even while all workers of the user's runtime are
//! blocked.

use std::time::{Duration, Instant};

use super::ground::{EVERYWHERE, Ground, Requirement, connect, on_threads, runtime};
use super::sheet::Sheet;
use crate::blocked::Blocked;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 16,
    what: "the watchdog is independent of the user's runtime",
    stores: EVERYWHERE,
    run,
};

const TTL: Duration = Duration::from_millis(600);

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(50, 4);
    let place = ground.place("blocked");
    on_threads(4, total, &mut ground.random(16), |_, _, next| {
        while let Some(number) = next() {
            let key = format!("blocked-{number}");
            let runtime = runtime(2);
            let pool = runtime.block_on(connect(&place.url));
            let request = pool.lock(&*key).ttl(TTL).watchdog();
            let guard = runtime.block_on(request.acquire()).expect("it is free");
            let blocked = Blocked::all(&runtime);
            sheet.faults("user worker blocked", 1);
            let started = Instant::now();
            while started.elapsed() < TTL * 3 {
                let free = place.probe.take(&key, TTL);
                if free || guard.check().is_err() {
                    sheet.fail(format!("{key} lapsed after {:?}", started.elapsed()));
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            drop(blocked);
        }
    });
    sheet.sections(total);
    sheet.reached("blocked runtimes", total, 50);
}
