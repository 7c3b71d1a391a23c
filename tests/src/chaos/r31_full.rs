//! Requirement 31: on a server with full memory, no lease of any kind is lost.

use std::time::Duration;

use leasehold::{LockGuard, LockPool, LockRequest};
use redis::cmd;

use super::ground::{Ground, REDIS, Requirement, connect, runtime};
use super::sheet::Sheet;
use crate::server::ServerOptions;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 31,
    what: "a full server ends no lease: one key, several keys, shared, permits, downgraded",
    stores: REDIS,
    run,
};

const TTL: Duration = Duration::from_secs(3);
/// Number of holders of each shared lock, and of each lock with permits.
const SHARES: u64 = 4;

/// Leases of one kind.
struct Held {
    what: &'static str,
    guards: Vec<LockGuard>,
}

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(200, 40);
    let server = ServerOptions::new()
        .option("maxmemory-policy", &["noeviction"])
        .start();
    let probe = server.probe();
    runtime(2).block_on(async {
        let pool = connect(&server.url()).await;
        let mut held = take_all(&pool, total).await;
        probe.run::<()>(cmd("CONFIG").arg("SET").arg("maxmemory").arg(1));
        let set = probe.try_run::<()>(cmd("SET").arg("k").arg("v"));
        sheet.check(set.is_err(), || "the server is not full".to_owned());
        sheet.faults("memory full", 1);
        for guard in &mut held.last_mut().expect("there are some").guards {
            if let Err(error) = guard.downgrade().await {
                sheet.fail(format!("a downgrade failed: {error}"));
            }
        }
        tokio::time::sleep(TTL * 2).await;
        for Held { what, guards } in held {
            let mut kept = 0;
            for guard in guards {
                kept += u64::from(guard.release().await.is_ok());
            }
            sheet.check(kept == total, || {
                format!("{what}: {} of {total} leases were lost", total - kept)
            });
            sheet.sections(total);
            sheet.reached(what, kept, 200);
        }
    });
    let left = probe.keys("lock:*").into_iter();
    let left = left.filter(|key| !key.starts_with("lock:%")).count();
    sheet.check(left == 0, || format!("{left} keys were not released"));
}

async fn take_all(pool: &LockPool, total: u64) -> Vec<Held> {
    let one = |kind: &str, number: u64| pool.lock(format!("{kind}-{number}"));
    let mut shared_before = take("downgraded before", total, |n| one("before", n)).await;
    for guard in &mut shared_before.guards {
        guard.downgrade().await.expect("there is room");
    }
    vec![
        take("of one key", total, |n| one("alone", n)).await,
        take("of two keys", total, |n| {
            pool.lock_all([format!("one-{n}"), format!("two-{n}")])
        })
        .await,
        take("shared", total, |n| one("shared", n / SHARES).shared()).await,
        take("permits", total, |n| one("permit", n / SHARES).permits(4)).await,
        shared_before,
        take("downgraded meanwhile", total, |n| one("meanwhile", n)).await,
    ]
}

async fn take(what: &'static str, total: u64, request: impl Fn(u64) -> LockRequest) -> Held {
    let mut guards = Vec::new();
    for number in 0..total {
        let request = request(number).ttl(TTL).watchdog();
        guards.push(request.acquire().await.expect("it is free"));
    }
    Held { what, guards }
}
