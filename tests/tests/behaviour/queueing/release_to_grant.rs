//! Measures the time from a release to the grant in another process, for several hold times.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use leasehold::LockPool;
use leasehold_tests::stores::Store;

const TTL: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(60);

/// The hold time of the lock, and the number of measurements.
const SECTIONS: [(Duration, usize); 4] = [
    (Duration::from_millis(1), 400),
    (Duration::from_millis(100), 40),
    (Duration::from_secs(1), 10),
    (Duration::from_secs(10), 3),
];

/// Makes two processes take the lock alternately, so that one waits while the other is inside.
/// Returns the times from each release to the next grant, sorted.
async fn measured(one: &LockPool, other: &LockPool, stay: Duration, count: usize) -> Vec<Duration> {
    let request = |pool: &LockPool| pool.lock("k").ttl(TTL).wait(LONG).watchdog();
    let mut held = request(one).acquire().await.expect("it is free");
    let mut times = Vec::new();
    for number in 0..count {
        let next = request(if number % 2 == 0 { other } else { one });
        let next = tokio::spawn(async move {
            let guard = next.acquire().await.expect("its turn comes");
            (Instant::now(), guard)
        });
        tokio::time::sleep(stay).await;
        let began = Instant::now();
        held.release().await.expect("still held");
        let (granted, guard) = next.await.expect("no panic");
        times.push(granted.duration_since(began));
        held = guard;
    }
    held.release().await.expect("still held");
    times.sort_unstable();
    times
}

fn at(times: &[Duration], hundredth: usize) -> Duration {
    times[(times.len() * hundredth / 100).min(times.len() - 1)]
}

/// Fails if a waiting call does not get a released lock at once, but waits for its next regular
/// request. Also fails if it waits for a pause in which the key is left free for clients without a
/// queue. Prints the table of `docs/performance/results.md`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures for 7 minutes, alone: -- --ignored release_to_grant --nocapture"]
async fn release_to_grant() {
    const NAME: &str = "release_to_grant";
    println!("| store | 1 ms | 100 ms | 1 s | 10 s |\n|---|---|---|---|---|");
    for (store, is_notified) in [
        (Store::memory(NAME), true),
        (Store::redis(NAME), true),
        (Store::sentinel(NAME), true),
        (Store::cluster(NAME), true),
        (Store::redlock(NAME), false),
        (Store::postgres(NAME), true),
        (Store::etcd(NAME), true),
        (Store::zookeeper(NAME), true),
    ] {
        let (one, other) = (store.pool().await, store.pool().await);
        let mut line = format!("| `{}` |", store.url.split("//").next().unwrap_or_default());
        for (stay, count) in SECTIONS {
            let times = measured(&one, &other, stay, count).await;
            let (half, most) = (at(&times, 50), at(&times, 99));
            let [half, most] = [half, most].map(|time| time.as_secs_f64() * 1e3);
            write!(line, " {half:.1}, {most:.1} |").expect("a string grows");
            assert!(!is_notified || half < 50.0, "{line}");
        }
        println!("{line}");
    }
}
