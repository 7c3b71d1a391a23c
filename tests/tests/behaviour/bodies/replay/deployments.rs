//! Kept results on different deployments, some of which cannot keep results.

use std::time::{Duration, Instant};

use leasehold::{LockError, LockPool};
use leasehold_tests::cluster::Setup;
use leasehold_tests::quorum::Quorum;
use leasehold_tests::server::{Server, ServerOptions};
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;
use redis::cmd;

use super::{DAY, End, HANG, Shop, TTL, click, order};
use crate::bodies::is_released;

const RESULT: &str = "lock:%leasehold:result:lock:order";
const FENCES: &str = "lock:%leasehold:fence";

async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url).io_timeout(NO_OUTAGE)).await
}

/// Fails if a result does not expire or is not in its documented key. Also fails if any key except
/// the result and the fence counter is left.
#[tokio::test]
async fn a_result_is_one_expiring_key() {
    let server = Server::start();
    let (probe, pool, shop) = (server.probe(), connect(&server.url()).await, Shop::new());
    let asked = Instant::now();
    click(&pool, &shop, End::Paid).await.expect("the first");
    is_released(&probe, "lock:order", asked).await;
    let mut keys = probe.keys("*");
    keys.sort_unstable();
    assert_eq!(keys, [FENCES, RESULT]);
    let left = probe.ttl(RESULT).expect("it expires");
    assert!(left <= DAY && DAY < left + TTL, "{left:?}");
    let text = probe.get(RESULT).expect("it is there");
    let path = concat!(module_path!(), "::buy").replace("::deployments", "");
    let record = format!("{path}:{{\"number\":1,");
    let (head, rest) = text.split_at(text.find(&path).expect("the function's path"));
    assert!(rest.starts_with(&record), "{text}");
    let sizes = format!(" {} {} ", path.len(), rest.len() - path.len());
    assert!(head.ends_with(&sizes), "{text}");
}

/// Fails if a server with full memory, which refuses new locks, does not keep the result of a held
/// lock.
#[tokio::test]
async fn a_full_server_takes_the_result() {
    let server = ServerOptions::new()
        .option("maxmemory-policy", &["noeviction"])
        .start();
    let (probe, pool, shop) = (server.probe(), connect(&server.url()).await, Shop::slow());
    let maxmemory = |bytes: u64| {
        probe.run::<()>(cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes));
    };
    let first = click(&pool, &shop, End::Paid);
    let fills = async {
        shop.begun.notified().await;
        maxmemory(1);
        shop.go_on();
    };
    let asked = Instant::now();
    let (first, ()) = tokio::join!(first, fills);
    assert_eq!(first, Ok(order(1)));
    is_released(&probe, "lock:order", asked).await;
    let second = click(&pool, &shop, End::Declined).await;
    assert_eq!(second, Ok(order(1)), "a result needs no memory to be read");
}

/// Fails if braces in the namespace or the key put a kept result into another cluster slot than its
/// lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_shares_the_slot_of_its_lock() {
    let cluster = Setup::new().start();
    for namespace in ["lock", "", "{shop}", "}a"] {
        let pool = LockPool::builder().url(cluster.url()).namespace(namespace);
        let pool = wait::connected(pool.io_timeout(NO_OUTAGE)).await;
        for key in ["plain", "{tag}:a", "{", "a{b}c{d}"] {
            let order = |number: u32| {
                let body = async move { Ok::<_, LockError>(number) };
                let request = pool.lock(key).ttl(TTL).wait(HANG);
                request.run_replayed(DAY, body)
            };
            assert_eq!(order(1).await, Ok(Ok(1)), "{namespace}:{key}");
            assert_eq!(order(2).await, Ok(Ok(1)), "{namespace}:{key}");
            assert_eq!(pool.forget(key).await, Ok(true), "{namespace}:{key}");
            let held = pool.lock(key).ttl(TTL).wait(HANG).acquire().await;
            let handover = held.expect("free").hand_over().expect("held");
            let adopted = pool.adopt(handover).await;
            adopted.expect("still there").release().await.expect("held");
        }
    }
}

/// Fails if a Redlock quorum, which cannot keep results, runs the body of a `replay` call.
#[tokio::test]
async fn a_quorum_refuses_replay() {
    let nodes = Quorum::young(3);
    let (pool, shop) = (connect(&nodes.url()).await, Shop::new());
    let refused = click(&pool, &shop, End::Paid).await;
    let expected =
        |error: &super::OrderError| format!("{error:?}").contains("`replay` is not supported");
    assert!(refused.as_ref().is_err_and(expected), "{refused:?}");
    assert_eq!(shop.bodies(), 0);
    let error = pool.forget("order").await.expect_err("there is none");
    assert!(matches!(error, LockError::Config { .. }), "{error}");
}

/// Fails if a server with persistence loses a kept result in a restart.
#[tokio::test]
async fn a_persistent_server_keeps_results_over_a_restart() {
    let mut server = ServerOptions::new().append_only().start();
    let (pool, shop) = (connect(&server.url()).await, Shop::new());
    let asked = Instant::now();
    click(&pool, &shop, End::Paid).await.expect("the first");
    is_released(&server.probe(), "lock:order", asked).await;
    server.restart();
    let order_again = async {
        loop {
            match click(&pool, &shop, End::Paid).await {
                Err(super::OrderError::Lock(error)) if error.is_unavailable() => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                answer => return answer,
            }
        }
    };
    let again = wait::within("the server", 6 * HANG, order_again).await;
    assert_eq!(again, Ok(order(1)));
}
