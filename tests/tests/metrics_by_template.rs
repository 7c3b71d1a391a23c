//! Checks the metrics of calls, which are labelled with the template of their keys. The tests are
//! in a separate program, because they install a recorder.

use std::collections::BTreeMap;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use leasehold::__test::reports_delivered;
use leasehold::{LockError, LockPool, distributed_lock};
use leasehold_tests::server::Server;
use leasehold_tests::wait;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

const LONG: Duration = Duration::from_secs(20);
const TTL: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(50);

type Labels = BTreeMap<String, String>;

/// The values of all series. A histogram has three entries: its count under its own name, its sum
/// under `…_sum`, and the number of its registrations under `…_registered`.
static SERIES: Mutex<BTreeMap<(String, Labels), f64>> = Mutex::new(BTreeMap::new());
static DESCRIBED: Mutex<BTreeMap<String, Option<Unit>>> = Mutex::new(BTreeMap::new());

/// Installs the recorder once.
static INSTALLED: LazyLock<()> = LazyLock::new(|| {
    metrics::set_global_recorder(Book).expect("the only one");
});

fn lock<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Book;

struct Series {
    name: String,
    labels: Labels,
}

impl Series {
    fn of(key: &Key) -> Arc<Self> {
        let labels = key.labels();
        let labels = labels.map(|label| (label.key().to_owned(), label.value().to_owned()));
        Arc::new(Self {
            name: key.name().to_owned(),
            labels: labels.collect(),
        })
    }

    fn change(&self, suffix: &str, change: impl FnOnce(f64) -> f64) {
        let key = (format!("{}{suffix}", self.name), self.labels.clone());
        let mut series = lock(&SERIES);
        let value = series.entry(key).or_default();
        *value = change(*value);
    }
}

impl CounterFn for Series {
    fn increment(&self, step: u64) {
        let step = f64::from(u32::try_from(step).expect("a test counts few"));
        self.change("", |value| value + step);
    }

    fn absolute(&self, _: u64) {
        panic!("leasehold counts by steps");
    }
}

impl GaugeFn for Series {
    fn increment(&self, _: f64) {
        panic!("leasehold sets its gauges");
    }

    fn decrement(&self, _: f64) {
        panic!("leasehold sets its gauges");
    }

    fn set(&self, value: f64) {
        self.change("", |_| value);
    }
}

impl HistogramFn for Series {
    fn record(&self, seconds: f64) {
        self.change("", |count| count + 1.0);
        self.change("_sum", |sum| sum + seconds);
    }
}

fn described(name: &KeyName, unit: Option<Unit>) {
    lock(&DESCRIBED).insert(name.as_str().to_owned(), unit);
}

impl Recorder for Book {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        described(&name, unit);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        described(&name, unit);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        described(&name, unit);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Series::of(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Series::of(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let histogram = Series::of(key);
        // The usual exporters show a histogram from its registration, even without durations. So
        // the test also counts registrations.
        histogram.change("_registered", |times| times + 1.0);
        Histogram::from_arc(histogram)
    }
}

/// Connects a separate pool for the test.
async fn pool(url: &str) -> LockPool {
    LazyLock::force(&INSTALLED);
    wait::connected(LockPool::builder().url(url)).await
}

/// Returns the values of the metric's series whose label `label` is `value`. The result is indexed
/// by the value of the label `by`.
fn by(metric: &str, by: &str, (label, value): (&str, &str)) -> BTreeMap<String, f64> {
    reports_delivered();
    let series = lock(&SERIES);
    let of = series.iter().filter(|((name, labels), _)| {
        name == metric && labels.get(label).is_some_and(|given| given == value)
    });
    of.map(|((_, labels), count)| (labels[by].clone(), *count))
        .collect()
}

/// Returns the value of the metric for this template.
fn of(metric: &str, template: &str) -> Option<f64> {
    by(metric, "lock", ("lock", template))
        .get(template)
        .copied()
}

fn counts<const N: usize>(pairs: [(&str, f64); N]) -> BTreeMap<String, f64> {
    pairs.map(|(name, count)| (name.to_owned(), count)).into()
}

/// Returns the number of calls of this template by outcome.
fn outcomes(template: &str) -> BTreeMap<String, f64> {
    by("leasehold_acquire_seconds", "outcome", ("lock", template))
}

/// Returns the number of ended locks of this template by their label `end`.
fn ends(template: &str) -> BTreeMap<String, f64> {
    by("leasehold_held_seconds", "end", ("lock", template))
}

#[distributed_lock(key = "asked:<id>", ttl = "30s", pool = pool)]
async fn asked(pool: &LockPool, id: &str) -> Result<(), LockError> {
    let _ = pool;
    pending().await
}

#[distributed_lock(key = "asked:<id>", ttl = "30s", wait = "50ms", pool = pool)]
async fn waits(pool: &LockPool, id: &str) -> Result<(), LockError> {
    let _ = pool;
    Ok(())
}

/// Fails if the outcome of a call is counted under a wrong name or label, twice, or not at all.
/// Also fails if `leasehold_held` or `leasehold_waiting` does not follow the calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_are_counted_by_template() {
    let template = "asked:<id>";
    let pool = pool("memory://").await;
    let mut holder = wait::started(asked(&pool, "1")).await;
    wait::until("it holds", LONG, || {
        let _ = (&mut holder).now_or_never();
        of("leasehold_held", template) == Some(1.0)
    });
    assert!(matches!(
        waits(&pool, "1").await,
        Err(LockError::TimedOut { .. })
    ));
    assert!(matches!(
        asked(&pool, "1").await,
        Err(LockError::Contended { .. })
    ));
    assert!(matches!(
        asked(&pool, "").await,
        Err(LockError::InvalidKey { .. })
    ));
    let gives_up = wait::started(waits(&pool, "1")).await;
    assert_eq!(of("leasehold_waiting", template), Some(1.0));
    drop(gives_up);
    assert_eq!(of("leasehold_waiting", template), Some(0.0));
    drop(holder);
    assert_eq!(of("leasehold_held", template), Some(0.0));
    let expected = [
        ("contended", 1.0),
        ("dropped", 1.0),
        ("granted", 1.0),
        ("other", 1.0),
        ("timed_out", 1.0),
    ];
    assert_eq!(outcomes(template), counts(expected));
    assert_eq!(ends(template), counts([("dropped", 1.0)]));
    assert_eq!(
        of("leasehold_lost_total", template),
        Some(0.0),
        "known before the first loss"
    );
}

#[distributed_lock(key = "first:<id>", ttl = "30s", pool = pool)]
async fn first(pool: &LockPool, id: u32) -> Result<(), LockError> {
    let _ = pool;
    Ok(())
}

/// Fails if the series of an outcome is missing until the first call with this outcome. Such a
/// series begins at one, so Prometheus shows no increase for this call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_outcome_begins_at_zero() {
    let pool = pool("memory://").await;
    first(&pool, 1).await.expect("free");
    assert_eq!(outcomes("first:<id>"), counts([("granted", 1.0)]));
    let registered = "leasehold_acquire_seconds_registered";
    let registered = by(registered, "outcome", ("lock", "first:<id>"));
    for outcome in [
        "contended",
        "timed_out",
        "queue_full",
        "unavailable",
        "other",
    ] {
        assert!(
            registered.contains_key(outcome),
            "{outcome}: {registered:?}"
        );
    }
}

#[distributed_lock(key = "ends:<id>", ttl = "30s", pool = pool)]
async fn returns(pool: &LockPool, id: u32) -> Result<u32, LockError> {
    let _ = pool;
    Ok(id)
}

#[distributed_lock(key = "ends:<id>", ttl = "30s", pool = pool)]
async fn panics(pool: &LockPool, id: u32) -> Result<u32, LockError> {
    panic!("as the test wants it, with {id} and {pool:?}")
}

/// Fails if the end of a lock is counted under a wrong name. Guards and bodies with one template
/// must share their counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_ends_are_counted_by_template() {
    let template = "ends:<id>";
    let pool = pool("memory://").await;
    assert_eq!(returns(&pool, 1).await, Ok(1));
    let panicked = AssertUnwindSafe(panics(&pool, 1)).catch_unwind().await;
    assert!(panicked.is_err());
    let request = pool.lock("ends:1").label(template).ttl(TTL);
    request
        .clone()
        .acquire()
        .await
        .expect("free")
        .release()
        .await
        .expect("held");
    drop(request.clone().acquire().await.expect("free"));
    let guard = request.clone().wait(LONG).acquire().await.expect("free");
    let thread = std::thread::spawn(move || {
        let _guard = guard;
        panic!("as the test wants it");
    });
    assert!(thread.join().is_err());
    let expected = [("dropped", 1.0), ("panicked", 2.0), ("released", 2.0)];
    assert_eq!(ends(template), counts(expected));
    assert_eq!(outcomes(template), counts([("granted", 5.0)]));
    assert_eq!(of("leasehold_held", template), Some(0.0));
}

#[distributed_lock(key = "inside:<id>", ttl = "30s", reentrant, pool = pool)]
async fn inner(pool: &LockPool, id: u32) -> Result<(), LockError> {
    let _ = pool;
    assert_eq!(of("leasehold_held", "inside:<id>"), Some(1.0), "one lock");
    Ok(())
}

#[distributed_lock(key = "inside:<id>", ttl = "30s", pool = pool)]
async fn outer(pool: &LockPool, id: u32) -> Result<(), LockError> {
    inner(pool, id).await
}

/// Fails if a nested call counts as a second holder of its lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nested_call_does_not_count_as_a_second_holder() {
    let pool = pool("memory://").await;
    outer(&pool, 1).await.expect("free");
    let expected = [("entered", 1.0), ("granted", 1.0)];
    assert_eq!(outcomes("inside:<id>"), counts(expected));
    assert_eq!(ends("inside:<id>"), counts([("released", 1.0)]));
}

#[distributed_lock(key = ["both:<one>", "both:<other>"], ttl = "30s", pool = pool)]
async fn both(pool: &LockPool, one: u32, other: u32) -> Result<(), LockError> {
    let _ = (pool, one, other);
    Ok(())
}

#[distributed_lock(key = [one.to_string(), other.to_string()], ttl = "30s", pool = pool)]
async fn expressions(pool: &LockPool, one: u32, other: u32) -> Result<(), LockError> {
    let _ = (pool, one, other);
    Ok(())
}

/// Fails if a key or a part of a key becomes a label. Also fails if a call with several keys is
/// counted once for each key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_are_templates_and_never_keys() {
    let pool = pool("memory://").await;
    both(&pool, 48_151, 62_342).await.expect("free");
    assert_eq!(
        outcomes("both:<one>, both:<other>"),
        counts([("granted", 1.0)])
    );
    expressions(&pool, 48_151, 62_342).await.expect("free");
    drop(
        pool.lock("secret:48151")
            .ttl(TTL)
            .acquire()
            .await
            .expect("free"),
    );
    assert!(outcomes("other").contains_key("granted"));
    let series = lock(&SERIES);
    for (name, labels) in series.keys() {
        let private = |value: &String| value.contains("48151") || value.contains("secret");
        assert!(!labels.values().any(private), "{name} {labels:?}");
    }
}

#[distributed_lock(key = "lost:<id>", ttl = "1s", watchdog = "50ms", pool = pool)]
async fn runs_on(pool: &LockPool, id: u32) -> Result<(), LockError> {
    let _ = pool;
    pending().await
}

#[distributed_lock(key = "lost:<id>", ttl = "30s", pool = pool)]
async fn is_late(pool: &LockPool, server: &Server, id: u32) -> Result<(), LockError> {
    let _ = pool;
    assert!(server.probe().delete(&format!("lock:lost:{id}")));
    Ok(())
}

/// Fails if a loss found by a renewal or by a release is not counted under its template.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losses_and_renewals_are_counted_by_template() {
    let server = Server::start();
    let pool = pool(&server.url()).await;
    let renewals = || {
        by(
            "leasehold_renewals_total",
            "outcome",
            ("outcome", "renewed"),
        )
    };
    let (body, probe) = (runs_on(&pool, 1), server.probe());
    let deleted = async {
        let renewed = || renewals().get("renewed").is_some_and(|count| 0.0 < *count);
        wait::until_async("it is renewed", LONG, renewed).await;
        assert!(probe.delete("lock:lost:1"));
    };
    let (lost, ()) = tokio::join!(body, deleted);
    assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
    is_late(&pool, &server, 2).await.expect("its work is done");
    assert_eq!(of("leasehold_lost_total", "lost:<id>"), Some(2.0));
    assert_eq!(ends("lost:<id>"), counts([("lost", 2.0)]));
    let lost = by("leasehold_renewals_total", "outcome", ("outcome", "lost"));
    assert_eq!(lost, counts([("lost", 1.0)]));
}

/// Fails if `leasehold_store_up` does not follow the server, or if a request is missing from
/// `leasehold_store_request_seconds`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_state_of_the_store_is_reported() {
    let mut server = Server::start();
    let pool = pool(&server.url()).await;
    let store = format!("redis://{}", server.address());
    let up = || {
        by("leasehold_store_up", "store", ("store", &store))
            .get(&store)
            .copied()
    };
    wait::until_async("it is up", LONG, || up() == Some(1.0)).await;
    let guard = pool.lock("k").ttl(TTL).acquire().await.expect("free");
    guard.release().await.expect("held");
    let requests = by("leasehold_store_request_seconds", "op", ("store", &store));
    assert_eq!(requests, counts([("acquire", 1.0), ("release", 1.0)]));
    server.kill();
    wait::until_async("it is down", LONG, || up() == Some(0.0)).await;
    server.restart();
    wait::until_async("it is up again", LONG, || up() == Some(1.0)).await;
    server.kill();
    wait::until_async("it is down again", LONG, || up() == Some(0.0)).await;
    drop(pool);
    wait::until_async("no pool reports it any more", LONG, || up() == Some(1.0)).await;
}

/// Fails if `leasehold_acquire_seconds` is not the wait of a call in seconds, or if
/// `leasehold_held_seconds` is not the time with the lock.
#[tokio::test(start_paused = true)]
async fn durations_are_in_seconds() {
    LazyLock::force(&INSTALLED);
    let pool = LockPool::builder().url("memory://").on_current_runtime();
    let pool = pool.connect().await.expect("it opens");
    let request = pool.lock("k").label("timed").ttl(TTL);
    let guard = request.clone().acquire().await.expect("free");
    let waits = tokio::spawn(request.wait(LONG).acquire());
    tokio::time::sleep(Duration::from_secs(3)).await;
    guard.release().await.expect("held");
    let second = waits.await.expect("no panic").expect("it came free");
    tokio::time::sleep(SHORT).await;
    second.release().await.expect("held");
    let reported =
        |metric: &str, by_label: &str, value: &str| by(metric, by_label, ("lock", "timed"))[value];
    let waited = reported("leasehold_acquire_seconds_sum", "outcome", "granted");
    assert!((waited - 3.0).abs() < 0.06, "{waited}");
    let held = reported("leasehold_held_seconds_sum", "end", "released");
    assert!((held - 3.05).abs() < 0.06, "{held}");
}

/// Fails if a metric has no description, or if its unit does not match its name. Only metrics with
/// the ending `_seconds` are in seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_metric_is_described() {
    let pool = pool("memory://").await;
    drop(pool.lock("k").ttl(TTL).acquire().await.expect("free"));
    wait::until_async("they are described", LONG, || 11 <= lock(&DESCRIBED).len()).await;
    reports_delivered();
    let described = lock(&DESCRIBED);
    for (name, _) in lock(&SERIES).keys() {
        let name = name.trim_end_matches("_sum");
        let name = name.trim_end_matches("_registered");
        let unit = described.get(name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(
            name.ends_with("_seconds"),
            *unit == Some(Unit::Seconds),
            "{name}"
        );
    }
}
