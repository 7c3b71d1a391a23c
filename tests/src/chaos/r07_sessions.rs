//! Requirement 7 in etcd and ZooKeeper: a dropped call leaves no node in the lock's directory for
//! longer than a bound, although the session of its process continues.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::__test::now;
use leasehold::{LockError, LockPool, distributed_lock};

use super::ensembles::Ensemble;
use super::ground::{Ground, Requirement, local_runtime, on_threads};
use super::sheet::Sheet;
use super::sighting::Sighting;
use super::store::Store;
use crate::pipe::{Flow, Pipe};
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 7,
    what: "no orphan outlives its bound, in a session that goes on",
    stores: &[Store::Etcd, Store::Zookeeper],
    run,
};

/// Time after which at most one in a hundred dropped calls may still have a node on a reachable
/// server.
const SOON: Duration = Duration::from_millis(500);

#[distributed_lock(key = "<key>", ttl = "1s", pool = pool)]
async fn stays(pool: &LockPool, key: &str) -> Result<(), LockError> {
    std::future::pending().await
}

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(800, 80);
    let server = Ensemble::start(ground.store, 1);
    let bound = server.times().orphan;
    let (reachable, slow) = (AtomicU64::new(0), AtomicU64::new(0));
    on_threads(8, total, &mut ground.random(42), |_, mut random, next| {
        let pipes = server.pipes();
        let (pipe, probe) = (&pipes[0], server.probe());
        let runtime = local_runtime();
        let builder = LockPool::builder().url(server.url_over(&pipes));
        let pool = runtime.block_on(wait::connected(builder));
        while let Some(number) = next() {
            let key = format!("orphan-{number}");
            let patience = random.duration(Duration::from_millis(10));
            let fails = number % 4 == 0;
            let phase = random.duration(Duration::from_millis(8));
            let fault = random.below(4);
            runtime
                .block_on(async {
                    let call = tokio::time::timeout(patience, stays(&pool, &key));
                    let fail = async {
                        if fails {
                            tokio::time::sleep(phase).await;
                            break_network(pipe, fault);
                        }
                    };
                    tokio::join!(call, fail)
                })
                .0
                .expect_err("the body stays");
            let due = now();
            sheet.faults("future dropped", 1);
            if fails {
                sheet.faults("network fault in an acquire", 1);
                pipe.set(Flow::Pass);
            }
            let watch = if fails { bound } else { SOON };
            let pause = Duration::from_millis(5);
            let Sighting { last, excuse } =
                Sighting::of(&*probe, &key, due, [watch, bound * 2], pause);
            sheet.release(last);
            if last > bound + excuse {
                sheet.orphan(format!("{key} (fault {fault}) lived for {last:?}"));
            }
            if !fails {
                reachable.fetch_add(1, Ordering::Relaxed);
                slow.fetch_add(u64::from(last > SOON + excuse), Ordering::Relaxed);
            }
        }
    });
    let (reachable, slow) = (reachable.into_inner(), slow.into_inner());
    sheet.sections(total);
    sheet.reached("dropped acquisitions", total, 800);
    sheet.remark(format!(
        "{slow} of {reachable} with a reachable store lived longer than {SOON:?}"
    ));
    sheet.check(slow * 100 <= reachable, || {
        format!("{slow} of {reachable} lived longer than {SOON:?}")
    });
}

fn break_network(pipe: &Pipe, fault: u64) {
    match fault {
        0 => pipe.set(Flow::BlackHole),
        1 => pipe.set(Flow::Stall),
        2 => pipe.set(Flow::LoseAnswers),
        _ => pipe.cut(),
    }
}
