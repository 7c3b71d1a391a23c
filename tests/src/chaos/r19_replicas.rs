//! Requirement 19: a lock that too few replicas have is an error, every time, and leaves no key; also during a fail-over.

use std::time::Duration;

use leasehold::{LockError, LockGuard, LockPool};
use tokio::runtime::Runtime;

use super::ground::{Ground, Requirement, Store, connect, runtime};
use super::sheet::Sheet;
use crate::sentinel::Deployment;
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 19,
    what: "a fail-over and a lock with `replicas = n` unmet: an error",
    stores: &[Store::Sentinel, Store::Replicas],
    run,
};

const TTL: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_secs(60);

fn run(ground: &Ground, sheet: &Sheet) {
    let each = ground.count(500, 20);
    let mut deployment = Deployment::start();
    let runtime = runtime(2);
    let base = deployment.url();
    let pool = |replicas| runtime.block_on(connect(&format!("{base}?replicas={replicas}")));
    let wanted = ["2", "all"].map(|replicas| (replicas, pool(replicas)));
    sheet.faults("SIGSTOP of a replica", 1);
    let stopped = deployment.replicas().next().expect("there are two").port();
    deployment.pause(stopped);
    for (replicas, pool) in &wanted {
        refused(&runtime, pool, &format!("stopped-{replicas}"), each, sheet);
    }
    let probe = deployment.master().probe();
    let left = || probe.keys("lock:stopped-*");
    let clean = wait::try_until(LIMIT / 2, || left().is_empty());
    sheet.check(clean.is_some(), || format!("left: {:?}", left()));
    deployment.resume(stopped);
    // After the fail-over there is one replica, and all of them are two.
    sheet.faults("SIGKILL of the master", 1);
    let dead = deployment.fail_over();
    for (replicas, pool) in &wanted {
        refused(&runtime, pool, &format!("after-{replicas}"), each, sheet);
    }
    deployment.bring_back(dead);
    for (replicas, pool) in &wanted {
        let back = pool.lock(format!("back-{replicas}")).ttl(TTL).wait(LIMIT);
        let back = runtime.block_on(back.acquire());
        sheet.check(back.is_ok(), || {
            format!("replicas = {replicas}: all are back, and {back:?}")
        });
    }
    sheet.reached("acquisitions without enough replicas", 4 * each, 2_000);
}

fn refused(runtime: &Runtime, pool: &LockPool, name: &str, times: u64, sheet: &Sheet) {
    runtime.block_on(async {
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..times {
            calls.spawn(pool.lock(format!("{name}-{number}")).ttl(TTL).acquire());
        }
        for ended in calls.join_all().await {
            judge(name, ended, sheet);
        }
    });
}

fn judge(name: &str, ended: Result<LockGuard, LockError>, sheet: &Sheet) {
    match ended {
        Err(LockError::Unavailable { .. }) => {}
        Err(error) => sheet.fail(format!("{name}: {error:?}")),
        Ok(_) => sheet.overlap(format!(
            "{name}: a lock counts that a replica does not have"
        )),
    }
}
