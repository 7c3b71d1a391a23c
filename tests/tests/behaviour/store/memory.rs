//! Tests of `memory://`: pools of one process that share locks, and the lifetime of these locks.

use std::time::{Duration, Instant};

use leasehold::{LockError, LockGuard, LockPool};
use leasehold_tests::wait;

const TTL: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_secs(10);

async fn connect(url: &str) -> LockPool {
    LockPool::connect(url).await.expect("it opens")
}

async fn take(pool: &LockPool) -> Result<LockGuard, LockError> {
    pool.lock("k").ttl(TTL).acquire().await
}

/// True if a lock held by either of the two pools keeps the other pool out.
async fn exclude_each_other(one: &LockPool, other: &LockPool) -> bool {
    let mut refused = Vec::new();
    for (first, second) in [(one, other), (other, one)] {
        let held = take(first).await.expect("free");
        match take(second).await {
            Ok(second) => {
                refused.push(false);
                second.release().await.expect("it is held");
            }
            Err(LockError::Contended { .. }) => refused.push(true),
            Err(error) => panic!("{error}"),
        }
        held.release().await.expect("it is held");
    }
    assert_eq!(refused[0], refused[1], "one of them keeps the other out");
    refused[0]
}

/// Fails if two pools on `memory://` share locks, or if pools of one name do not.
#[tokio::test]
async fn pools_share_locks_only_by_name() {
    let builder = LockPool::builder().url("memory://");
    let private = builder.clone().connect().await.expect("it opens");
    let again = builder.connect().await.expect("it opens");
    assert!(!exclude_each_other(&private, &again).await);
    assert!(exclude_each_other(&private, &private.clone()).await);

    let one = connect("memory://share-one").await;
    let same = connect("memory://share-one").await;
    let slash = connect("memory://share-one/").await;
    let two = connect("memory://share-two").await;
    assert!(exclude_each_other(&one, &same).await);
    assert!(exclude_each_other(&same, &slash).await);
    assert!(!exclude_each_other(&one, &two).await);
    assert!(!exclude_each_other(&one, &private).await);
    let elsewhere = LockPool::builder().namespace("elsewhere");
    let elsewhere = elsewhere.url("memory://share-one").connect().await;
    let elsewhere = elsewhere.expect("it opens");
    assert!(!exclude_each_other(&one, &elsewhere).await);
}

/// Fails if the locks of a name are forgotten while a guard or a `cooldown` keeps one of them.
#[tokio::test]
async fn a_name_lasts_as_long_as_its_locks() {
    const URL: &str = "memory://lasts";
    const HOLD: Duration = Duration::from_secs(1);
    let pool = connect(URL).await;
    let held = take(&pool).await.expect("free");
    drop(pool);
    let refused = take(&connect(URL).await).await;
    assert!(
        matches!(refused, Err(LockError::Contended { .. })),
        "{refused:?}"
    );

    let kept_since = Instant::now();
    held.release_after(HOLD).await.expect("it is held");
    // Each attempt drops its pool. So between two attempts, the name exists only because of the
    // kept lock.
    loop {
        let looked = Instant::now();
        match take(&connect(URL).await).await {
            Ok(_) => break,
            Err(LockError::Contended { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        assert!(looked - kept_since < LIMIT, "it does not come free");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(kept_since.elapsed() >= HOLD, "{:?}", kept_since.elapsed());
}

/// Fails if pools of one name do not exclude each other while such pools are connected and dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_lived_pools_of_one_name_exclude_each_other() {
    let url = "memory://come-and-go";
    let inside = std::sync::Arc::new(tokio::sync::Semaphore::new(1));
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let inside = std::sync::Arc::clone(&inside);
            tokio::spawn(async move {
                for _ in 0..20 {
                    let pool = connect(url).await;
                    let request = pool.lock("k").ttl(TTL).wait(TTL);
                    let section = request.run(async {
                        let alone = inside.try_acquire().expect("alone in the lock");
                        tokio::task::yield_now().await;
                        drop(alone);
                    });
                    section.await.expect("its turn comes");
                }
            })
        })
        .collect();
    for caller in callers {
        let caller = wait::within("a caller", 6 * LIMIT, caller).await;
        caller.expect("no panic");
    }
}

/// With `on_current_runtime`, each pool has the clock of its runtime. Fails if this is accepted for
/// a named store, whose pools must share one clock.
#[tokio::test]
async fn a_named_store_on_the_clock_of_one_runtime_is_refused() {
    for (url, taken) in [("memory://paused", false), ("memory://", true)] {
        let builder = LockPool::builder().url(url).on_current_runtime();
        match builder.connect().await {
            Ok(_) => assert!(taken, "{url}"),
            Err(error) => {
                assert!(!taken, "{url}: {error}");
                assert!(matches!(error, LockError::Config { .. }), "{error:?}");
                let text = error.to_string();
                assert!(text.contains("on_current_runtime"), "{text}");
            }
        }
    }
}
