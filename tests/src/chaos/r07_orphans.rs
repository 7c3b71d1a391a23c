//! Requirement 7: a dropped call leaves no lock on the server (an "orphan") for longer than a
//! bound.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::__test::now;
use leasehold::{LockError, LockPool, distributed_lock};

use super::ground::{Ground, Requirement, SERVERS, local_runtime, on_threads};
use super::sheet::Sheet;
use super::sighting::Sighting;
use super::site::Site;
use super::store::Store;
use crate::proxy::{Mode, Proxy};
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 7,
    what: "no orphan outlives its bound",
    stores: SERVERS,
    run,
};

const TTL: Duration = Duration::from_secs(1);
const SLACK: Duration = Duration::from_millis(200);

/// Returns the time after which at most one dropped call in a hundred may still have an orphan on a
/// reachable store. On PostgreSQL this takes longer: the client replaces a silent connection only
/// after half a second, because a commit may have to wait for the disk.
fn soon(store: Store) -> Duration {
    Duration::from_millis(if store == Store::Postgres { 800 } else { 100 })
}

#[distributed_lock(key = "<key>", ttl = "1s", pool = pool)]
async fn stays(pool: &LockPool, key: &str) -> Result<(), LockError> {
    std::future::pending().await
}

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(4_000, 160);
    let (site, soon) = (Site::start(ground.store), soon(ground.store));
    let (reachable, slow) = (AtomicU64::new(0), AtomicU64::new(0));
    on_threads(16, total, &mut ground.random(7), |_, mut random, next| {
        let proxy = site.proxy();
        let probe = site.probe();
        let runtime = local_runtime();
        let builder = LockPool::builder()
            .url(site.url_over(proxy.address()))
            .io_timeout(SLACK);
        let pool = runtime.block_on(wait::connected(builder));
        while let Some(number) = next() {
            let key = format!("orphan-{number}");
            proxy.set(Mode::Delay {
                least: Duration::from_millis(1),
                jitter: Duration::from_millis(3),
            });
            let patience = random.duration(Duration::from_millis(10));
            let fails = number % 4 == 0;
            let phase = random.duration(Duration::from_millis(8));
            let fault = random.below(6);
            runtime
                .block_on(async {
                    let call = tokio::time::timeout(patience, stays(&pool, &key));
                    let fail = async {
                        if fails {
                            tokio::time::sleep(phase).await;
                            break_network(&proxy, fault);
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
                proxy.pass();
            }
            let watch = if fails { TTL + SLACK } else { soon };
            // Sixteen threads look for their keys at the interval `soon / 50`. More frequent looks
            // would keep PostgreSQL busy.
            let Sighting { last, excuse } =
                Sighting::of(&*probe, &key, due, [watch, TTL * 3], soon / 50);
            sheet.release(last);
            if last > TTL + SLACK + excuse {
                sheet.orphan(format!("{key} (fault {fault}) lived for {last:?}"));
            }
            if !fails {
                reachable.fetch_add(1, Ordering::Relaxed);
                slow.fetch_add(u64::from(last > soon + excuse), Ordering::Relaxed);
            }
        }
    });
    sheet.sections(total);
    sheet.reached("dropped acquisitions", total, 4_000);
    judge(sheet, soon, reachable.into_inner(), slow.into_inner());
}

/// Checks that, with a reachable store, at most one dropped call in a hundred left an orphan for
/// longer than `soon`. `reachable` is the number of these calls, and `slow` the number of calls
/// with such an orphan.
fn judge(sheet: &Sheet, soon: Duration, reachable: u64, slow: u64) {
    sheet.remark(format!(
        "{slow} of {reachable} with a reachable store lived longer than {soon:?}"
    ));
    sheet.check(slow * 100 <= reachable, || {
        format!("{slow} of {reachable} lived longer than {soon:?}")
    });
}

fn break_network(proxy: &Proxy, fault: u64) {
    match fault {
        0 => proxy.set(Mode::BlackHole),
        1 => proxy.set(Mode::Stall),
        2 => proxy.set(Mode::SwallowReplies),
        3 => proxy.hang_up(Duration::from_millis(50)),
        4 => proxy.cut(),
        _ => proxy.half_open(),
    }
}
