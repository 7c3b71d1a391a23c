//! Requirement 6: a caller is not refused by what its own first try has set.

use std::time::Duration;

use super::ground::{Ground, REDIS, Requirement, connect, local_runtime, on_threads};
use super::sheet::Sheet;
use crate::proxy::{After, Proxy};
use crate::server::Server;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 6,
    what: "acquire is idempotent: reply lost after execution",
    stores: REDIS,
    run,
};

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(10_000, 120);
    let server = Server::start();
    on_threads(16, total, &mut ground.random(6), |_, _, next| {
        let proxy = Proxy::start(server.address());
        let runtime = local_runtime();
        let pool = runtime.block_on(connect(&proxy.url()));
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
    sheet.reached("lost replies", total, 10_000);
}
