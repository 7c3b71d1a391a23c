//! Requirement 13: with a minority of the Redlock nodes down or hung, every lock can be taken. The
//! 99th percentile of the durations of `acquire` is at most one node time-out longer than with all
//! nodes.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use leasehold::LockPool;

use super::ground::{Ground, Requirement, local_runtime, on_threads};
use super::sheet::Sheet;
use super::store::Store;
use crate::lateness::Excuse;
use crate::proxy::{Mode, Proxy};
use crate::quorum::{self, Quorum};
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 13,
    what: "Redlock with a minority down or hung",
    stores: &[Store::Redlock],
    run,
};

const TTL: Duration = Duration::from_secs(1);
/// The default time limit for the answer of one node.
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy)]
enum Away {
    Killed,
    Stopped,
    CutOff,
}

const WAYS: [Away; 3] = [Away::Killed, Away::Stopped, Away::CutOff];

fn run(ground: &Ground, sheet: &Sheet) {
    let each = ground.count(1_000, 50);
    let mut cases = Vec::new();
    for nodes in [3, 5] {
        cases.extend(WAYS.map(|away| (nodes, away)));
    }
    let worst = Mutex::new(Duration::ZERO);
    let total = u64::try_from(cases.len()).unwrap_or(0);
    on_threads(2, total, &mut ground.random(13), |_, _, next| {
        while let Some(number) = next() {
            let (nodes, away) = cases[usize::try_from(number).unwrap_or(0)];
            sheet.faults(&format!("minority away: {away:?}"), 1);
            let added = without(nodes, away, each, sheet);
            let mut worst = worst.lock().expect("no panic under this lock");
            *worst = added.max(*worst);
        }
    });
    sheet.sections(2 * each * total);
    sheet.reached("locks taken with a minority away", each * total, 6_000);
    let worst = worst.into_inner().expect("no panic under this lock");
    sheet.remark(format!("added p99 at most {worst:.1?}"));
}

/// Takes locks with all nodes, and then without a minority of them. Returns the increase of the
/// 99th percentile of the durations.
fn without(count: usize, away: Away, each: u64, sheet: &Sheet) -> Duration {
    let mut nodes = Quorum::older_than(count, TTL);
    let proxies = nodes.proxies();
    let url = quorum::url(proxies.iter().map(Proxy::address), "max_ttl=100ms");
    let runtime = local_runtime();
    let pool = runtime.block_on(wait::connected(LockPool::builder().url(url)));
    let excuse = Excuse::begin();
    let before = runtime.block_on(take(&pool, "before", each, sheet));
    for (server, proxy) in nodes.servers.iter_mut().zip(&proxies).take(count / 2) {
        match away {
            Away::Killed => server.kill(),
            Away::Stopped => server.pause(),
            Away::CutOff => proxy.set(Mode::BlackHole),
        }
    }
    let during = runtime.block_on(take(&pool, "without", each, sheet));
    let added = during.saturating_sub(before);
    sheet.check(added <= NODE_TIMEOUT + excuse.longest(), || {
        format!("{count} nodes, {away:?}: p99 {before:?} became {during:?}")
    });
    added
}

/// Takes locks, and returns the 99th percentile of the durations.
async fn take(pool: &LockPool, name: &str, times: u64, sheet: &Sheet) -> Duration {
    let mut took = Vec::new();
    for number in 0..times {
        let started = Instant::now();
        let guard = pool.lock(format!("{name}-{number}")).ttl(TTL).acquire();
        match guard.await {
            Ok(guard) => {
                took.push(started.elapsed());
                let released = guard.release().await;
                sheet.check(released.is_ok(), || format!("release: {released:?}"));
            }
            Err(error) => sheet.fail(format!("{name}: not taken: {error}")),
        }
    }
    took.sort_unstable();
    took.get(took.len() * 99 / 100).copied().unwrap_or_default()
}
