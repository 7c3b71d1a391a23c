//! Requirement 17: renewals and releases still work on a server with full memory.

use std::time::Duration;

use redis::cmd;

use super::ground::{Ground, REDIS, Requirement, connect, runtime};
use super::sheet::Sheet;
use crate::probe::Probe;
use crate::server::ServerOptions;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 17,
    what: "renew and release when memory is full (noeviction)",
    stores: REDIS,
    run,
};

const TTL: Duration = Duration::from_secs(3);

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(1_000, 200);
    let server = ServerOptions::new()
        .option("maxmemory-policy", &["noeviction"])
        .start();
    let probe = server.probe().namespace("lock:");
    let runtime = runtime(2);
    let kept = runtime.block_on(async {
        let pool = connect(&server.url()).await;
        let mut guards = Vec::new();
        for number in 0..total {
            let request = pool.lock(format!("full-{number}")).ttl(TTL).watchdog();
            guards.push(request.acquire().await.expect("it is free"));
        }
        probe.run::<()>(cmd("CONFIG").arg("SET").arg("maxmemory").arg(1));
        let set = probe.try_run::<()>(cmd("SET").arg("k").arg("v"));
        sheet.check(set.is_err(), || "the server is not full".to_owned());
        tokio::time::sleep(TTL * 2).await;
        let mut kept = 0;
        for guard in guards {
            kept += u64::from(guard.release().await.is_ok());
        }
        kept
    });
    let left = (0..total)
        .filter(|number| probe.exists(&format!("full-{number}")))
        .count();
    sheet.check(kept == total, || {
        format!("{} of {total} leases were lost", total - kept)
    });
    sheet.check(left == 0, || format!("{left} of {total} were not released"));
    sheet.faults("memory full", 1);
    sheet.sections(total);
    sheet.reached("leases renewed and released", kept, 1_000);
}
