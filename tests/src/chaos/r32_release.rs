//! Requirement 32: a release of a missing lock reports that the lock was gone. A `cooldown` never
//! lasts longer than requested.

use std::time::Duration;

use leasehold::{LockError, LockPool, LockRequest};
use redis::cmd;

use super::ground::{Ground, REDIS, Requirement, connect, local_runtime, on_threads};
use super::sheet::Sheet;
use crate::lateness::Excuse;
use crate::probe::Probe;
use crate::proxy::{Mode, Proxy};
use crate::server::Server;
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 32,
    what: "a release that finds the lock gone is reported; a cooldown is never longer than requested",
    stores: REDIS,
    run,
};

/// Ttl of the locks. It is longer than a round of the test may take, so that no lease ends in a
/// round.
const TTL: Duration = Duration::from_secs(30);
const COOLDOWN: Duration = Duration::from_millis(1_500);
/// Delay of a renewal in flight. The renewal arrives after the release, while `cooldown` still
/// keeps the lock.
const LATE: Duration = Duration::from_millis(700);
const LIMIT: Duration = Duration::from_secs(15);

fn run(ground: &Ground, sheet: &Sheet) {
    gone(ground, sheet);
    held(ground, sheet);
}

/// Deletes each lock before its holder releases it. The release must report the loss.
fn gone(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(100, 10);
    let server = Server::start();
    let probe = server.probe();
    let runtime = local_runtime();
    let pool = runtime.block_on(connect(&server.url()));
    let mut reported = 0;
    for (kind, request) in kinds() {
        for number in 0..total {
            let request = request(&pool, number).ttl(TTL);
            let guard = runtime.block_on(request.acquire()).expect("it is free");
            probe.run::<()>(&cmd("FLUSHALL"));
            let released = runtime.block_on(guard.release());
            let lost = matches!(released, Err(LockError::Lost { .. }));
            reported += u64::from(lost);
            sheet.check(lost, || {
                format!("{kind}: the lock was gone, and the release returned {released:?}")
            });
        }
    }
    sheet.faults("lock taken away before its release", 4 * total);
    sheet.sections(4 * total);
    sheet.reached("releases that were reported", reported, 400);
}

type Kind = (&'static str, fn(&LockPool, u64) -> LockRequest);

fn kinds() -> [Kind; 4] {
    [
        ("of one key", |pool, number| {
            pool.lock(format!("one-{number}"))
        }),
        ("of two keys", |pool, number| {
            pool.lock_all([format!("a-{number}"), format!("b-{number}")])
        }),
        ("shared", |pool, number| {
            pool.lock(format!("shared-{number}")).shared()
        }),
        ("permits", |pool, number| {
            pool.lock(format!("permit-{number}")).permits(3)
        }),
    ]
}

/// Makes a renewal in flight arrive after the end of its connection and after the release. The
/// renewal must not keep the lock for longer than `COOLDOWN`.
fn held(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(100, 8);
    let server = Server::start();
    on_threads(8, total, &mut ground.random(32), |_, _, next| {
        let proxy = Proxy::start(server.address());
        let runtime = local_runtime();
        let pool = runtime.block_on(connect(&proxy.url()));
        let probe = server.probe().namespace("lock:");
        while let Some(number) = next() {
            let key = format!("held-{number}");
            let request = pool.lock(&*key).ttl(TTL);
            let request = request.watchdog_every(Duration::from_millis(50));
            let guard = runtime.block_on(request.wait(LIMIT).acquire());
            let guard = guard.expect("it is free");
            let excuse = Excuse::begin();
            let sent = proxy.counts().commands;
            proxy.set(Mode::Delay {
                least: LATE,
                jitter: Duration::ZERO,
            });
            wait::until("a renewal is on its way", LIMIT, || {
                proxy.counts().commands > sent
            });
            // New connections are not delayed. The bytes in flight on the old connection still
            // arrive late.
            proxy.pass();
            proxy.hang_up(Duration::ZERO);
            sheet.faults("renewal arrives after the release", 1);
            let released = runtime.block_on(guard.release_after(COOLDOWN));
            sheet.check(released.is_ok(), || format!("{key}: {released:?}"));
            let bound = COOLDOWN + Duration::from_millis(200) + excuse.so_far();
            let free = wait::try_until(bound, || !probe.exists(&key));
            sheet.check(free.is_some(), || {
                format!(
                    "{key} was to stay for {COOLDOWN:?} and stays for {:?} more",
                    probe.ttl(&key)
                )
            });
        }
    });
    sheet.sections(total);
    sheet.reached("cooldowns", total, 100);
}
