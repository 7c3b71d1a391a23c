//! Requirement 9: fences still grow after the restart of a server without persistence.

use std::time::Duration;

use super::ground::{Ground, REDIS, Requirement, connect, local_runtime};
use super::sheet::Sheet;
use crate::server::Server;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 9,
    what: "the fence strictly increases over restarts without persistence",
    stores: REDIS,
    run,
};

const TTL: Duration = Duration::from_secs(10);
const KEYS: usize = 3;

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(100, 3);
    let mut server = Server::start();
    let runtime = local_runtime();
    let pool = runtime.block_on(connect(&server.url()));
    let mut last = [None; KEYS];
    let mut sections = 0;
    for restart in 0..=total {
        for number in 0..60 {
            let index = number % KEYS;
            let request = pool.lock(format!("fenced-{index}")).ttl(TTL).wait(TTL);
            let guard = runtime
                .block_on(request.acquire())
                .expect("the server is back");
            let fence = guard.fence();
            if fence <= last[index] {
                sheet.inversion(format!(
                    "restart {restart}: {fence:?} after {:?}",
                    last[index]
                ));
            }
            last[index] = fence;
            sections += 1;
            runtime.block_on(guard.release()).expect("still held");
        }
        if restart < total {
            server.restart();
        }
    }
    sheet.faults("restart with nothing on disk", total);
    sheet.sections(sections);
    sheet.reached("restarts", total, 100);
}
