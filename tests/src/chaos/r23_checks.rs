//! Requirement 23: a wrong configuration is reported when the pool connects.

use std::time::Duration;

use leasehold::{LockError, LockPool};
use redis::cmd;

use super::canary;
use super::ground::{Ground, REDIS, Requirement, local_runtime};
use super::sheet::Sheet;
use crate::server::{Server, ServerOptions};
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 23,
    what: "misconfiguration is reported at connect",
    stores: REDIS,
    run,
};

/// Command that gives a user all permissions that a pool needs, except `pexpire`, which renewals
/// need.
const TOO_FEW: &[&str] = &[
    "ACL",
    "SETUSER",
    "few",
    "on",
    ">few",
    "~lock:*",
    "-@all",
    "+eval",
    "+evalsha",
    "+script|load",
    "+get",
    "+mget",
    "+exists",
    "+set",
    "+del",
    "+pttl",
    "+time",
    "+ping",
    "+info",
    "+hello",
];
const ENOUGH: &[&str] = &["ACL", "SETUSER", "few", "+pexpire"];

fn run(_: &Ground, sheet: &Sheet) {
    canary::listen();
    eviction(sheet);
    replica(sheet);
    permission(sheet);
    sheet.reached("mistakes reported", 3, 3);
}

fn eviction(sheet: &Sheet) {
    let memory = ["maxmemory", "100mb"];
    for policy in ["volatile-ttl", "allkeys-lru"] {
        let server = ServerOptions::new()
            .option(memory[0], &memory[1..])
            .option("maxmemory-policy", &[policy])
            .start();
        let reported = reported(&server.url(), policy);
        sheet.check(reported, || format!("nothing was reported about {policy}"));
    }
    let server = ServerOptions::new().max_memory(100_000_000).start();
    let reported = reported(&server.url(), "noeviction");
    sheet.check(!reported, || "a warning about noeviction".to_owned());
}

fn replica(sheet: &Sheet) {
    let primary = Server::start();
    let replica = ServerOptions::new().replica_of(&primary).start();
    let reported = reported(&replica.url(), "replica");
    sheet.check(reported, || {
        "nothing was reported about a replica".to_owned()
    });
}

fn permission(sheet: &Sheet) {
    let server = Server::start();
    let probe = server.probe();
    let url = format!("redis://few:few@127.0.0.1:{}/", server.port());
    probe.run::<()>(cmd(TOO_FEW[0]).arg(&TOO_FEW[1..]));
    sheet.check(reported(&url, "pexpire"), || {
        "nothing was reported about a missing permission".to_owned()
    });
    probe.run::<()>(cmd(ENOUGH[0]).arg(&ENOUGH[1..]));
    let works = local_runtime().block_on(async {
        let pool = LockPool::connect(&url).await?;
        let guard = pool
            .lock("acl")
            .ttl(Duration::from_secs(5))
            .watchdog()
            .acquire()
            .await?;
        guard.release().await
    });
    sheet.check(works == Ok(()), || {
        format!("the documented permissions do not do: {works:?}")
    });
}

/// True if connecting to `url` fails with a text that contains `word`, or logs such a text.
fn reported(url: &str, word: &str) -> bool {
    let address = url
        .rsplit('@')
        .next()
        .unwrap_or(url)
        .trim_start_matches("redis://");
    let address = address.trim_end_matches('/').to_owned();
    let connected = local_runtime().block_on(LockPool::connect(url));
    if let Err(LockError::Unavailable { source }) = &connected {
        return source.to_string().contains(word);
    }
    let printed = || {
        let (_, lines) = canary::scan(std::slice::from_ref(&address));
        lines.iter().any(|line| line.contains(word))
    };
    wait::try_until(Duration::from_secs(1), printed).is_some()
}
