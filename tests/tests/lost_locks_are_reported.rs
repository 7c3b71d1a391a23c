//! Checks that a release reports the loss if its lock is gone. The tests are in a separate program,
//! because they read all logs and metrics of the process.

use std::fmt::{Debug, Write as _};
use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use leasehold::__test::reports_delivered;
use leasehold::{LockError, LockGuard, LockPool, distributed_lock};
use leasehold_tests::probe::Probe;
use leasehold_tests::proxy::{After, Proxy};
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::server::Server;
use leasehold_tests::wait;
use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};

const TTL: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(20);

/// Mutex that each test holds while it runs, because all tests read the counters of the process.
/// Its first use installs the recorder and the subscriber.
static ALONE: LazyLock<tokio::sync::Mutex<()>> = LazyLock::new(|| {
    metrics::set_global_recorder(Ear).expect("the only one");
    tracing::subscriber::set_global_default(Ear).expect("the only one");
    tokio::sync::Mutex::default()
});

static LOSSES: AtomicU64 = AtomicU64::new(0);
static CONFIRMED: AtomicU64 = AtomicU64::new(0);
static UNCONFIRMED: AtomicU64 = AtomicU64::new(0);
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Ear;

struct Counted(&'static AtomicU64);

impl CounterFn for Counted {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::SeqCst);
    }

    fn absolute(&self, _: u64) {}
}

impl Recorder for Ear {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let confirmed = key.labels().any(|label| label.value() == "true");
        let counted = match key.name() {
            "leasehold_leases_lost_total" => &LOSSES,
            "leasehold_releases_total" if confirmed => &CONFIRMED,
            "leasehold_releases_total" => &UNCONFIRMED,
            _ => return Counter::noop(),
        };
        Counter::from_arc(Arc::new(Counted(counted)))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl tracing::Subscriber for Ear {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("leasehold") && *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let mut warnings = WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.push(text.0);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A server, a pool on it, and the number of losses before the test.
struct Scene {
    server: Server,
    probe: RedisProbe,
    pool: LockPool,
    before: u64,
    _alone: tokio::sync::MutexGuard<'static, ()>,
}

impl Scene {
    async fn new() -> Self {
        let alone = ALONE.lock().await;
        reports_delivered();
        WARNINGS.lock().expect("no panic under it").clear();
        let server = Server::start();
        Self {
            probe: server.probe().namespace("lock:"),
            pool: LockPool::connect(&server.url()).await.expect("it answers"),
            server,
            before: LOSSES.load(Ordering::SeqCst),
            _alone: alone,
        }
    }

    async fn take(&self, key: &str) -> LockGuard {
        let taken = self.pool.lock(key).ttl(TTL).acquire().await;
        taken.expect("free")
    }

    /// Deletes all data of the server.
    fn forget(&self) {
        self.server.probe().run::<()>(&redis::cmd("FLUSHALL"));
    }

    fn losses(&self) -> u64 {
        reports_delivered();
        LOSSES.load(Ordering::SeqCst) - self.before
    }

    /// Asserts that exactly these leases were counted as lost and logged, each with its key.
    #[track_caller]
    fn expect(&self, keys: &[&str]) {
        let logged = logged();
        assert_eq!(self.losses(), keys.len() as u64, "{logged:?}");
        assert_eq!(logged.len(), keys.len(), "{logged:?}");
        for key in keys {
            let named = |text: &&String| text.contains(&format!("key={key:?}"));
            assert_eq!(logged.iter().filter(named).count(), 1, "{key}: {logged:?}");
        }
    }
}

/// Returns the numbers of confirmed and unconfirmed releases. The release of a lost lock counts as
/// unconfirmed.
fn releases() -> (u64, u64) {
    reports_delivered();
    let count = |of: &AtomicU64| of.load(Ordering::SeqCst);
    (count(&CONFIRMED), count(&UNCONFIRMED))
}

/// Returns the logged warnings about lost leases.
fn logged() -> Vec<String> {
    reports_delivered();
    let warnings = WARNINGS.lock().expect("no panic under it");
    let lost = warnings.iter().filter(|text| text.contains("lease lost"));
    lost.cloned().collect()
}

#[track_caller]
fn is_lost(ended: Result<(), LockError>, lost: &str) {
    match ended {
        Err(LockError::Lost { key, .. }) => assert_eq!(key, lost),
        other => panic!("{other:?}"),
    }
}

#[distributed_lock(key = "<key>", ttl = "30s", pool = scene.pool)]
async fn forgotten(scene: &Scene, key: &str) -> Result<u32, LockError> {
    scene.forget();
    Ok(7)
}

#[distributed_lock(key = "<key>", ttl = "30s", cooldown = "10s", pool = scene.pool)]
async fn kept(scene: &Scene, key: &str) -> Result<u32, LockError> {
    scene.forget();
    Ok(7)
}

#[distributed_lock(key = "k", ttl = "1s", on_lost = "continue", guard = lock, pool = scene.pool)]
async fn runs_on(scene: &Scene) -> Result<u32, LockError> {
    lock.lost().await;
    scene.forget();
    Ok(7)
}

#[distributed_lock(key = "k", ttl = "30s", reentrant, pool = scene.pool)]
async fn inner(scene: &Scene) -> Result<(), LockError> {
    scene.forget();
    Ok(())
}

#[distributed_lock(key = "k", ttl = "30s", pool = scene.pool)]
async fn outer(scene: &Scene) -> Result<(), LockError> {
    let before = scene.losses();
    inner(scene).await?;
    // The call of `inner` enters the lock of this call. So the end of `inner` sends no request to
    // the server, and detects no loss.
    assert_eq!(scene.losses(), before);
    Ok(())
}

#[distributed_lock(key = "k", ttl = "30s", detach, pool = pool)]
async fn detached(pool: LockPool, probe: Arc<RedisProbe>) -> Result<u32, LockError> {
    assert!(probe.delete("k"));
    Ok(7)
}

/// Fails if the release of a guard succeeds after its lock was deleted, or taken by another client.
/// Also fails if the other client's lock is changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_reports_a_lost_lock_at_its_release() {
    let scene = Scene::new().await;
    let guard = scene.take("deleted").await;
    let fence = guard.fence().expect("a fence").get();
    assert!(scene.probe.delete("deleted"));
    is_lost(guard.release().await, "deleted");
    scene.expect(&["deleted"]);
    assert!(logged()[0].contains(&format!("fence={fence}")));

    let guard = scene.take("taken").await;
    scene.probe.steal("taken", TTL);
    is_lost(guard.release().await, "taken");
    assert!(scene.probe.untouched("taken"));

    let guard = scene.take("kept").await;
    scene.forget();
    is_lost(guard.release_after(TTL).await, "kept");
    assert!(!scene.probe.exists("kept"), "it is not made again");
    scene.expect(&["deleted", "taken", "kept"]);
}

/// Fails if a release is not counted. Also fails if a confirmed release counts as unconfirmed, or
/// an unconfirmed release as confirmed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_are_counted() {
    let scene = Scene::new().await;
    let (confirmed, unconfirmed) = releases();
    let guard = scene.take("held").await;
    guard.release().await.expect("it was held");
    assert_eq!(releases(), (confirmed + 1, unconfirmed));

    let guard = scene.take("gone").await;
    scene.forget();
    is_lost(guard.release().await, "gone");
    assert_eq!(releases(), (confirmed + 1, unconfirmed + 1));
}

/// A lock is lost while its function runs. Fails if the function does not return its result, or if
/// the loss is not logged and counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_with_a_lost_lock_keeps_its_result() {
    let scene = Scene::new().await;
    assert_eq!(forgotten(&scene, "a").await, Ok(7));
    assert_eq!(kept(&scene, "b").await, Ok(7));
    let run = scene.pool.lock("c").ttl(TTL).run(async { scene.forget() });
    run.await.expect("the body has ended");
    outer(&scene).await.expect("both bodies have ended");
    scene.expect(&["a", "b", "c", "k"]);
    let probe = Arc::new(scene.server.probe().namespace("lock:"));
    assert_eq!(detached(scene.pool.clone(), probe).await, Ok(7));
    assert_eq!(scene.losses(), 5);
}

/// Fails if the release of a shared lock, a permit or a downgraded lock does not report its loss.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losses_of_shares_permits_and_downgrades_are_reported() {
    let scene = Scene::new().await;
    let request = |key: &str| scene.pool.lock(key).ttl(TTL);
    let share = request("share").shared().acquire().await.expect("free");
    let place = request("place").permits(3).acquire().await.expect("free");
    let mut less = request("less").acquire().await.expect("free");
    less.downgrade().await.expect("it becomes a share");
    scene.forget();
    for (key, guard) in [("share", share), ("place", place), ("less", less)] {
        is_lost(guard.release().await, key);
    }
    scene.expect(&["share", "place", "less"]);
}

/// Fails if the release of several keys succeeds although one of them was gone, or if the other
/// keys stay locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_of_one_of_several_keys_is_reported() {
    let scene = Scene::new().await;
    for gone in [&["b"][..], &["c", "b"], &["a"]] {
        let all = scene.pool.lock_all(["c", "a", "b"]).ttl(TTL);
        let guard = all.acquire().await.expect("free");
        for key in gone {
            assert!(scene.probe.delete(key));
        }
        is_lost(guard.release().await, gone.last().expect("one"));
        for key in ["a", "b", "c"] {
            assert!(!scene.probe.exists(key), "{key} stays");
        }
    }
    assert_eq!(scene.losses(), 4);
}

/// A guard or a call is dropped, so no caller waits for the release. Fails if a loss found by this
/// release is not counted and logged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losses_of_dropped_guards_and_calls_are_reported() {
    let scene = Scene::new().await;
    let guard = scene.take("guard").await;
    scene.forget();
    drop(guard);
    wait::until_async("the loss is counted", LONG, || scene.losses() == 1).await;
    let inside = tokio::sync::Notify::new();
    let call = scene.pool.lock("call").ttl(TTL).run(async {
        scene.forget();
        inside.notify_one();
        pending::<()>().await;
    });
    tokio::select! {
        _ = call => unreachable!("it stays"),
        () = inside.notified() => {}
    }
    wait::until_async("the loss is counted", LONG, || scene.losses() == 2).await;
    scene.expect(&["guard", "call"]);
}

/// Fails if a loss is counted when it is detected and again at the release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_loss_is_counted_once() {
    let scene = Scene::new().await;
    assert_eq!(runs_on(&scene).await, Ok(7));
    let second = Duration::from_secs(1);
    let guard = scene.pool.lock("late").ttl(second).acquire().await;
    let guard = guard.expect("free");
    guard.lost().await;
    scene.forget();
    is_lost(guard.release().await, "late");
    scene.expect(&["k", "late"]);
}

/// The first request of a release is executed, but its answer is lost. Fails if the release counts
/// as a loss. Also fails if a loss is counted when many calls take turns on one lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executed_release_is_not_a_loss() {
    let scene = Scene::new().await;
    let proxy = Proxy::start(scene.server.address());
    let pool = LockPool::connect(&proxy.url()).await.expect("it answers");
    for after in [After::Cut, After::Silence] {
        let guard = pool.lock("k").ttl(TTL).acquire().await.expect("free");
        proxy.lose_replies("lock:k", 1, after);
        guard.release().await.expect("the first try removed it");
        wait::until("it is removed", LONG, || !scene.probe.exists("k"));
    }
    let locks = (0..200).map(|_| async {
        let request = scene.pool.lock("hot").ttl(TTL).wait(TTL);
        request.run(ready(())).await.expect("it comes free");
    });
    futures_util::future::join_all(locks).await;
    let report = pool.shutdown(LONG).await;
    assert_eq!(report.still_held, 0);
    scene.expect(&[]);
}

/// Fails if the log does not show the cause of a loss.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reason_of_a_loss_is_logged() {
    let mut scene = Scene::new().await;
    let short = Duration::from_millis(600);
    let lasting = |key: &str| scene.pool.lock(key).ttl(short);
    let guard = lasting("ttl").acquire().await.expect("free");
    guard.lost().await;
    let most = lasting("most").watchdog().max_hold(short);
    most.acquire().await.expect("free").lost().await;
    let guard = lasting("deleted").watchdog().acquire().await.expect("free");
    assert!(scene.probe.delete("deleted"));
    guard.lost().await;
    let guard = lasting("away").watchdog().acquire().await.expect("free");
    scene.server.kill();
    guard.lost().await;
    for (key, reason) in [
        ("ttl", "its ttl is over, and no watchdog renews it"),
        ("most", "max_hold is over"),
        ("deleted", "the store no longer has this lock"),
        ("away", "not renewed in time: the lock store is unavailable"),
    ] {
        let logged = logged();
        let of = |text: &&String| text.contains(&format!("key={key:?}"));
        let line = logged.iter().find(of).expect("it is logged");
        assert!(line.contains(reason), "{line}");
    }
}

/// The axum response for a mistake of the program has status 500 and hides the reason. Fails if the
/// mistake is not logged. Also fails if a call refused because of contention is logged as a
/// mistake.
#[tokio::test]
async fn a_program_error_hidden_from_the_client_is_logged() {
    let _scene = Scene::new().await;
    for error in [LockError::contended("k", None), LockError::NotInstalled] {
        drop(axum::response::IntoResponse::into_response(error));
    }
    let warnings = WARNINGS.lock().expect("no panic under it");
    let logged: Vec<_> = warnings
        .iter()
        .filter(|text| text.contains("internal error"))
        .collect();
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert!(
        logged[0].contains("no lock pool is installed"),
        "{logged:?}"
    );
}
