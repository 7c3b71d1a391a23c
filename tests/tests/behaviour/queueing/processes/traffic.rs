//! Tests of the number of requests for a lock while no other process waits for it.

use leasehold_tests::server::Server;
use redis::cmd;
use tokio::task::JoinSet;

use super::{LONG, TTL, connect};

/// Fails if each of many calls of one process sends a request to the server.
#[tokio::test]
async fn calls_of_one_process_share_requests() {
    const TASKS: u64 = 16;
    const TIMES: u64 = 50;
    let server = Server::start();
    let probe = server.probe();
    let pool = connect(&server.url()).await;
    probe.run::<()>(cmd("CONFIG").arg("RESETSTAT"));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let pool = pool.clone();
        tasks.spawn(async move {
            for _ in 0..TIMES {
                let request = pool.lock("shared").ttl(TTL).wait(LONG);
                let guard = request.acquire().await.expect("its turn comes");
                tokio::task::yield_now().await;
                guard.release().await.expect("still held");
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no panic");
    }
    let stats: String = probe.run(cmd("INFO").arg("commandstats"));
    let scripts = stats.split_once("cmdstat_evalsha:calls=");
    let (_, rest) = scripts.expect("the lock was taken");
    let digits = rest.find(',').expect("more follows");
    let scripts: u64 = rest[..digits].parse().expect("a number");
    assert!(scripts < TASKS * TIMES / 2, "{scripts} scripts");
}
