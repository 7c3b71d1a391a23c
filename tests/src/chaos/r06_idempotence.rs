//! Requirement 6: the reply to an acquire is lost after the server has executed the request. The
//! repeated request succeeds, although the first request has already taken the lock.

use std::time::Duration;

use super::ground::{Ground, Requirement, SERVERS, connect, local_runtime, on_threads};
use super::sheet::Sheet;
use super::site::Site;
use super::store::Store;
use crate::proxy::After;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 6,
    what: "acquire is idempotent: reply lost after execution",
    stores: SERVERS,
    run,
};

fn run(ground: &Ground, sheet: &Sheet) {
    // Number of replies to lose in a full run, and number of threads. Both are lower for
    // PostgreSQL, because the client connects again after each lost reply, and PostgreSQL starts a
    // process for each connection.
    let (wanted, threads) = match ground.store {
        Store::Postgres => (2_000, 4),
        _ => (10_000, 16),
    };
    let total = ground.count(wanted, 120);
    let site = Site::start(ground.store);
    on_threads(threads, total, &mut ground.random(6), |_, _, next| {
        let proxy = site.proxy();
        let runtime = local_runtime();
        let pool = runtime.block_on(connect(&site.url_over(proxy.address())));
        while let Some(number) = next() {
            let key = format!("idempotent-{number};");
            let after = if number % 100 == 0 {
                After::Silence
            } else {
                After::Cut
            };
            proxy.lose_replies(&key, 1, after);
            let lost = proxy.counts().lost;
            let request = pool.lock(&*key).ttl(Duration::from_secs(30));
            match runtime.block_on(request.wait(Duration::from_secs(10)).acquire()) {
                Ok(guard) => drop(runtime.block_on(guard.release())),
                Err(error) => sheet.fail(format!("{key} {error}")),
            }
            sheet.check(proxy.counts().lost > lost, || {
                format!("{key} no reply was lost")
            });
        }
    });
    sheet.faults("reply lost after execution", total);
    sheet.sections(total);
    sheet.reached("lost replies", total, wanted);
}
