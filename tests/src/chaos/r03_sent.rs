//! Requirement 3: a lease counts from the time at which its request is sent, even if the reply is
//! late.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::__test::{deadline, now};

use super::ground::{Ground, REDIS, Requirement, connect, local_runtime, on_threads};
use super::sheet::Sheet;
use super::span::lease;
use crate::proxy::{Mode, Proxy};
use crate::server::Server;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 3,
    what: "D counts from the send time, with late replies",
    stores: REDIS,
    run,
};

const TTL: Duration = Duration::from_secs(5);
const ERROR: u64 = 1_000_000;

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(1_000, 60);
    let server = Server::start();
    let worst = AtomicU64::new(0);
    on_threads(8, total, &mut ground.random(3), |_, mut random, next| {
        let proxy = Proxy::start(server.address());
        let runtime = local_runtime();
        let pool = runtime.block_on(connect(&proxy.url()));
        while let Some(number) = next() {
            let delay = Duration::from_millis(2) + random.duration(Duration::from_millis(80));
            proxy.set(Mode::DelayReplies(delay));
            let asked = now();
            let request = pool.lock(format!("sent-{number}")).ttl(TTL);
            let guard = runtime
                .block_on(request.wait(TTL).acquire())
                .expect("it is free");
            let end = deadline(&guard.handle());
            // `sent` is the start of the lease. The client sends its request after `asked`, and
            // before the proxy receives it (`arrived`). So `sent` must be between these times.
            let arrived = proxy.last_command();
            let sent = end - lease(TTL);
            let error = sent.saturating_sub(arrived).max(asked.saturating_sub(sent));
            worst.fetch_max(error, Ordering::Relaxed);
            sheet.check(error <= ERROR, || {
                format!(
                    "asked {asked}, counts from {sent}, arrived {arrived}, reply after {delay:?}"
                )
            });
            sheet.faults("late reply", 1);
            proxy.pass();
            runtime.block_on(guard.release()).expect("still held");
        }
    });
    sheet.sections(total);
    sheet.reached("acquisitions", total, 1_000);
    let worst = Duration::from_nanos(worst.into_inner());
    sheet.remark(format!("worst error {worst:?}"));
}
