//! Tests that nested calls need no answer from the store. They enter the lock around them or are
//! refused, while all servers of the store are stopped.

use std::time::{Duration, Instant};

use leasehold::LockError;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::wait;

use super::nested_calls::{nest, plain};
use crate::leases::stopped_servers::{Servers, on_stopped};

/// A ttl for which the longest session of a ZooKeeper server in the tests is enough.
const TTL: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(60);

/// Time limit for all nested calls, in addition to the delays of the machine.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Time limit for nested calls that wait for an answer. It is shorter than the lease.
const HANG: Duration = Duration::from_secs(3);

/// All servers are stopped while nested calls run. Fails if these calls need an answer to enter the
/// lock, to leave it, or to be refused.
async fn nested_calls_need_no_answer(mut servers: Servers) {
    let pool = servers.pool().await;
    let request = || pool.lock("k").ttl(TTL);
    let excuse = Excuse::begin();
    let outer = request().wait(LONG).run(async {
        servers.pause();
        let began = Instant::now();
        let nested = async {
            let depth = nest(&pool, 3).await?.len();
            request().reentrant().run(async {}).await?;
            let guard = request().reentrant().acquire().await?;
            guard.check()?;
            guard.release().await?;
            drop(request().reentrant().acquire().await?);
            let refused = plain(&pool).await.expect_err("it would wait for itself");
            Ok::<_, LockError>((depth, refused))
        };
        let nested = wait::within("the nested calls", HANG, Box::pin(nested)).await;
        let took = began.elapsed();
        servers.resume();
        (nested, took)
    });
    let (nested, took) = outer.await.expect("the lock is free");
    let (depth, refused) = nested.expect("all enter");
    assert_eq!(depth, 4);
    assert!(
        matches!(refused, LockError::WouldDeadlock { .. }),
        "{refused:?}"
    );
    assert!(took < AT_ONCE + excuse.so_far(), "{took:?}");
}

on_stopped!(redis sentinel cluster redlock postgres etcd zookeeper: (
    nested_calls_need_no_answer,
));
