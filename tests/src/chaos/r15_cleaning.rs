//! Requirement 15: a call that gets only a minority of the nodes leaves nothing on them.

use std::time::Duration;

use leasehold::LockError;
use tokio::task::JoinSet;

use super::ground::{Ground, Requirement, connect, runtime};
use super::sheet::Sheet;
use super::store::Store;
use crate::lateness::Excuse;
use crate::quorum::{self, Quorum};
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 15,
    what: "partial acquisitions on Redlock are cleaned: 20 contenders, nothing left after 1 s",
    stores: &[Store::Redlock],
    run,
};

const TTL: Duration = Duration::from_secs(8);
const SECOND: Duration = Duration::from_secs(1);
const CONTENDERS: usize = 20;

fn run(ground: &Ground, sheet: &Sheet) {
    let rounds = ground.count(100, 5);
    let runtime = runtime(2);
    for count in [3, 5] {
        let nodes = Quorum::older_than(count, TTL);
        let probes = nodes.probes();
        let mut pools = Vec::new();
        for _ in 0..CONTENDERS {
            // Each contender has a separate pool. With one pool, the queue inside the process would
            // decide which contender gets the lock.
            pools.push(runtime.block_on(connect(&nodes.url())));
        }
        for round in 0..rounds {
            let key = format!("hot-{round}");
            let mut calls = JoinSet::new();
            for pool in &pools {
                let call = pool.lock(&*key).ttl(TTL).acquire();
                calls.spawn_on(call, runtime.handle());
            }
            let ended = runtime.block_on(calls.join_all());
            let (won, lost): (Vec<_>, Vec<_>) = ended.into_iter().partition(Result::is_ok);
            let others = lost.iter().filter_map(|lost| lost.as_ref().err());
            for error in others.filter(|error| !matches!(error, LockError::Contended { .. })) {
                sheet.fail(format!("{count} nodes, {key}: {error}"));
            }
            sheet.sections(u64::try_from(won.len()).unwrap_or(0));
            if won.len() > 1 {
                sheet.overlap(format!("{count} nodes: {} hold {key}", won.len()));
            }
            drop(won);
            let excuse = Excuse::begin();
            let clean = wait::try_until(SECOND * 10, || quorum::left(&probes, &key).is_empty());
            sheet.release(clean.unwrap_or(SECOND * 10));
            if clean.is_none_or(|took| took > SECOND + excuse.so_far()) {
                sheet.orphan(format!("{count} nodes: {key} was left for {clean:?}"));
            }
        }
    }
    sheet.reached("rounds of 20 contenders", 2 * rounds, 200);
}
