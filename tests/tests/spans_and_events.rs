//! Checks the spans of a call, and the events of locks and stores. The tests are in a separate
//! program, because they install a subscriber.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use leasehold::__test::reports_delivered;
use leasehold::{LockError, LockPool, LockRequest, distributed_lock};
use leasehold_tests::server::Server;
use leasehold_tests::wait;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

const TTL: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(20);

type Fields = BTreeMap<String, String>;

/// A span, with everything that the subscriber has received about it.
#[derive(Debug, Clone)]
struct Recorded {
    name: &'static str,
    level: Level,
    /// The name of the span in which this span began.
    parent: Option<&'static str>,
    fields: Fields,
    entered: u32,
    /// Number of open handles of the span.
    handles: u32,
}

static SPANS: Mutex<BTreeMap<u64, Recorded>> = Mutex::new(BTreeMap::new());
static EVENTS: Mutex<Vec<(Level, Fields)>> = Mutex::new(Vec::new());

/// The methods ("hooks") of the subscriber that panic in the test. Each number counts the calls of
/// the method before the panic.
const HOOKS: [(&str, u32); 8] = [
    ("new_span", 0),
    ("new_span", 1),
    ("enter", 0),
    ("enter", 1),
    ("exit", 0),
    ("record", 0),
    ("try_close", 0),
    ("try_close", 1),
];

thread_local! {
    /// The spans that this thread has entered.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    /// The hook that panics on this thread, and the number of its calls before the panic.
    static PANICS: RefCell<Option<(&'static str, u32)>> = const { RefCell::new(None) };
}

static INSTALLED: LazyLock<()> = LazyLock::new(|| {
    tracing::subscriber::set_global_default(Book).expect("the only one");
});

fn lock<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Book;

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

/// Panics if the test has requested a panic of this hook on this thread.
fn hook(name: &'static str) {
    let panics = PANICS.with_borrow_mut(|panics| match panics {
        Some((wanted, 0)) if *wanted == name => panics.take().is_some(),
        Some((wanted, before)) if *wanted == name => {
            *before -= 1;
            false
        }
        _ => false,
    });
    assert!(!panics, "as the test wants it, in {name}");
}

impl Subscriber for Book {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("leasehold") || metadata.target() == "test"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        static LAST: AtomicU64 = AtomicU64::new(0);
        hook("new_span");
        let mut fields = Fields::new();
        attributes.record(&mut Reader(&mut fields));
        let parent = INSIDE.with_borrow(|inside| inside.last().copied());
        let mut spans = lock(&SPANS);
        let recorded = Recorded {
            name: attributes.metadata().name(),
            level: *attributes.metadata().level(),
            parent: parent.map(|parent| spans[&parent].name),
            fields,
            entered: 0,
            handles: 1,
        };
        let id = LAST.fetch_add(1, Ordering::SeqCst) + 1;
        spans.insert(id, recorded);
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        hook("record");
        let mut spans = lock(&SPANS);
        let recorded = spans
            .get_mut(&id.into_u64())
            .expect("a span of this subscriber");
        values.record(&mut Reader(&mut recorded.fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::new();
        event.record(&mut Reader(&mut fields));
        if let Some(inside) = INSIDE.with_borrow(|inside| inside.last().copied()) {
            let name = lock(&SPANS)[&inside].name;
            fields.insert("inside".to_owned(), name.to_owned());
        }
        lock(&EVENTS).push((*event.metadata().level(), fields));
    }

    fn enter(&self, id: &Id) {
        hook("enter");
        lock(&SPANS)
            .get_mut(&id.into_u64())
            .expect("a span")
            .entered += 1;
        INSIDE.with_borrow_mut(|inside| inside.push(id.into_u64()));
    }

    fn exit(&self, id: &Id) {
        let left = INSIDE.with_borrow_mut(Vec::pop);
        assert_eq!(left, Some(id.into_u64()));
        hook("exit");
    }

    fn clone_span(&self, id: &Id) -> Id {
        lock(&SPANS)
            .get_mut(&id.into_u64())
            .expect("a span")
            .handles += 1;
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut spans = lock(&SPANS);
        let recorded = spans.get_mut(&id.into_u64()).expect("a span");
        recorded.handles -= 1;
        let closed = recorded.handles == 0;
        drop(spans);
        hook("try_close");
        closed
    }
}

async fn pool(url: &str) -> LockPool {
    LazyLock::force(&INSTALLED);
    wait::connected(LockPool::builder().url(url)).await
}

/// Returns the spans with this template, in the order in which they began.
fn spans(template: &str) -> Vec<Recorded> {
    let spans = lock(&SPANS);
    let of = |recorded: &&Recorded| {
        recorded
            .fields
            .get("lock.template")
            .is_some_and(|given| given == template)
    };
    spans.values().filter(of).cloned().collect()
}

/// Returns the name and the outcome of each span with this template. Asserts that all these spans
/// are closed.
#[track_caller]
fn ended(template: &str) -> Vec<(&'static str, String)> {
    let spans = spans(template);
    let open: Vec<&Recorded> = spans
        .iter()
        .filter(|recorded| recorded.handles != 0)
        .collect();
    assert!(open.is_empty(), "{open:?}");
    let outcome = |recorded: &Recorded| {
        recorded
            .fields
            .get("lock.outcome")
            .cloned()
            .unwrap_or_default()
    };
    spans
        .iter()
        .map(|recorded| (recorded.name, outcome(recorded)))
        .collect()
}

fn pairs<const N: usize>(pairs: [(&'static str, &str); N]) -> Vec<(&'static str, String)> {
    pairs
        .map(|(name, outcome)| (name, outcome.to_owned()))
        .to_vec()
}

/// Returns the events with this code.
fn events(code: &str) -> Vec<(Level, Fields)> {
    reports_delivered();
    let events = lock(&EVENTS);
    let of = |(_, fields): &&(Level, Fields)| fields.get("code").is_some_and(|given| given == code);
    events.iter().filter(of).cloned().collect()
}

/// Returns the events with this code about locks of this template.
fn events_of(code: &str, template: &str) -> Vec<(Level, Fields)> {
    let of = |(_, fields): &(Level, Fields)| fields["lock.template"] == template;
    events(code).into_iter().filter(of).collect()
}

#[distributed_lock(key = "order:<id>", ttl = "30s", guard = lock, pool = pool)]
async fn create(pool: &LockPool, id: u32) -> Result<u64, LockError> {
    let _ = pool;
    tokio::task::yield_now().await;
    tracing::info!(target: "test", of = "create", id);
    Ok(lock.fence().expect("memory:// numbers its locks").get())
}

/// Fails if a span's name, level, fields or parent differ from the documentation, or if a span
/// shows the key. Also fails if the body does not run inside the second span.
#[tokio::test]
async fn a_call_has_two_spans_and_its_body_runs_in_the_second() {
    let pool = pool("memory://").await;
    let request = tracing::info_span!(target: "test", "request");
    let fence = {
        let call = create(&pool, 42);
        tracing::Instrument::instrument(call, request)
            .await
            .expect("free")
    };
    let expected = [
        ("leasehold::acquire", "granted"),
        ("leasehold::held", "released"),
    ];
    assert_eq!(ended("order:<id>"), pairs(expected));
    for recorded in spans("order:<id>") {
        assert_eq!(recorded.level, Level::INFO);
        assert_eq!(recorded.parent, Some("request"));
        assert_eq!(recorded.fields["lock.fence"], fence.to_string());
        assert!(
            recorded.fields["lock.waited_ms"].parse::<u64>().is_ok(),
            "{recorded:?}"
        );
        assert!(!recorded.fields.contains_key("lock.key"), "{recorded:?}");
        assert!(
            !format!("{recorded:?}").contains("order:42"),
            "{recorded:?}"
        );
    }
    assert!(2 <= spans("order:<id>")[1].entered, "each poll of the body");
    let events = lock(&EVENTS);
    let of_body = events
        .iter()
        .find(|(_, fields)| fields.get("of").is_some_and(|of| of == "create"));
    assert_eq!(of_body.expect("an event").1["inside"], "leasehold::held");
}

/// Fails if the spans of a pool with `log_keys(true)` do not show the keys.
#[tokio::test]
async fn keys_are_shown_if_requested() {
    LazyLock::force(&INSTALLED);
    let pool = LockPool::builder().url("memory://").log_keys(true);
    let pool = pool.connect().await.expect("it opens");
    let both = pool
        .lock_all(["b", "a"])
        .label("shown")
        .ttl(TTL)
        .run(async {});
    both.await.expect("free");
    for recorded in spans("shown") {
        assert_eq!(recorded.fields["lock.key"], "a, b", "{recorded:?}");
    }
    let names = ended("shown");
    assert_eq!(names.len(), 2, "{names:?}");
}

/// Fails if a call that gets no lock has a second span, or if its span has no outcome. Also fails
/// if the span of a held lock does not show how the lock ended.
#[tokio::test]
async fn the_spans_show_the_outcome_of_a_call() {
    let pool = pool("memory://").await;
    let request = |label| pool.lock("k").label(label).ttl(TTL);
    let guard = request("guard").acquire().await.expect("free");
    let refused = request("refused").acquire().await;
    assert!(refused.expect_err("it is held").is_contention());
    drop(wait::started(request("gives up").wait(LONG).acquire()).await);
    let invalid = pool.lock("").label("invalid").ttl(TTL).acquire().await;
    assert!(matches!(invalid, Err(LockError::InvalidKey { .. })));
    guard.release().await.expect("held");
    let body = AssertUnwindSafe(request("panics").run(async { panic!("as the test wants it") }));
    assert!(body.catch_unwind().await.is_err());
    let dropped = request("drops").wait(LONG).run(pending::<()>());
    assert!(
        tokio::time::timeout(Duration::from_millis(50), dropped)
            .await
            .is_err()
    );
    let (acquire, held) = ("leasehold::acquire", "leasehold::held");
    assert_eq!(
        ended("guard"),
        pairs([(acquire, "granted"), (held, "released")])
    );
    assert_eq!(ended("refused"), pairs([(acquire, "contended")]));
    assert_eq!(ended("gives up"), pairs([(acquire, "dropped")]));
    assert_eq!(ended("invalid"), pairs([(acquire, "other")]));
    assert_eq!(
        ended("panics"),
        pairs([(acquire, "granted"), (held, "panicked")])
    );
    assert_eq!(
        ended("drops"),
        pairs([(acquire, "granted"), (held, "dropped")])
    );
    let guard = pool.lock("handed over").ttl(TTL).acquire().await;
    let handover = guard.expect("free").hand_over().expect("exclusive");
    let mut altered = serde_json::to_value(handover).expect("it is JSON");
    altered["ttl"] = 1.into();
    let altered = serde_json::from_value(altered).expect("a handover");
    let adopting = tracing::info_span!(target: "test", "adopting");
    let adopted = tracing::Instrument::instrument(pool.adopt(altered), adopting).await;
    assert!(matches!(adopted.map(drop), Err(LockError::Config { .. })));
    // Other tests have spans with this template, too, but not inside `adopting`.
    let mut refused = spans("other");
    refused.retain(|recorded| recorded.parent == Some("adopting"));
    let outcomes = refused.iter().map(|span| span.fields.get("lock.outcome"));
    assert_eq!(outcomes.collect::<Vec<_>>(), [Some(&"other".to_owned())]);
}

/// One hook of the subscriber panics during a call. Fails if the call leaves its lock behind or
/// waits forever, or if the process ends.
#[test]
fn a_panicking_subscriber_leaves_no_lock_behind() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let pool = runtime.block_on(pool("memory://"));
    for (name, before) in HOOKS {
        for body_panics in [false, true] {
            let lock = pool.lock(name).label("panics anywhere").ttl(TTL).wait(LONG);
            PANICS.set(Some((name, before)));
            // `PANICS` is set on this thread only. The whole call, including its body, also runs on
            // this thread.
            let call = lock.clone().run(async {
                tokio::task::yield_now().await;
                assert!(!body_panics, "as the test wants it, in the body");
            });
            let _ = catch_unwind(AssertUnwindSafe(|| runtime.block_on(call)));
            assert_eq!(PANICS.take(), None, "it was called often enough");
            let again = runtime.block_on(lock.acquire());
            drop(again.unwrap_or_else(|error| panic!("{name}: {error}")));
        }
    }
}

#[distributed_lock(key = "lost:<id>", ttl = "30s", pool = pool)]
async fn is_late(pool: &LockPool, server: &Server, id: u32) -> Result<(), LockError> {
    let _ = pool;
    assert!(server.probe().delete(&format!("lock:lost:{id}")));
    Ok(())
}

/// Fails if a pool that connects in the background logs an outage although its server answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lazy_start_is_no_outage() {
    let mut server = Server::start();
    let pool = LockPool::builder().url(server.url()).connect_lazy();
    let pool = pool.expect("a valid URL");
    let lazy = pool.lock("lazy").ttl(LONG).wait(LONG);
    drop(lazy.acquire().await.expect("the server answers"));
    server.kill();
    let store = format!("redis://{}", server.address());
    let outages = || {
        let of_store = |(_, fields): &(Level, Fields)| fields["store"] == store;
        events("store-away").into_iter().filter(of_store).count()
    };
    wait::until_async("it is away", LONG, || 0 < outages()).await;
    assert_eq!(outages(), 1);
}

/// Fails if there is no event for a lost lease, or for a store that goes away or comes back. Also
/// fails if an event has another code or level.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incidents_are_events_with_a_stable_code() {
    let mut server = Server::start();
    let pool = pool(&server.url()).await;
    is_late(&pool, &server, 7).await.expect("its work is done");
    let lost = events_of("lease-lost", "lost:<id>");
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0].0, Level::WARN);
    let store = format!("redis://{}", server.address());
    let recorded = |code: &str| {
        let of_store = |(_, fields): &(Level, Fields)| fields["store"] == store;
        events(code)
            .into_iter()
            .find(of_store)
            .map(|(level, _)| level)
    };
    server.kill();
    wait::until_async("it is away", LONG, || {
        recorded("store-away") == Some(Level::WARN)
    })
    .await;
    server.restart();
    wait::until_async("it is back", LONG, || {
        recorded("store-back") == Some(Level::INFO)
    })
    .await;
}

#[distributed_lock(key = "taken:<id>", ttl = "30s", pool = pool)]
async fn is_taken_away(pool: &LockPool, id: u32) -> Result<(), LockError> {
    let was = pool.force_release(&format!("taken:{id}")).await?;
    assert!(was.is_some(), "it was held");
    pending().await
}

/// A lock is taken away by force. Fails if the event lacks its code, the template, the key or the
/// fence. Also fails if the lock is not reported as lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_release_is_an_event_and_a_loss() {
    let server = Server::start();
    let pool = pool(&server.url()).await;
    let lost = is_taken_away(&pool, 7).await.expect_err("taken away");
    assert!(lost.is_lost(), "{lost}");
    let recorded = ["forced-release", "lease-lost"].map(|code| events_of(code, "taken:<id>"));
    let [forced, lost] = recorded.each_ref().map(Vec::as_slice);
    let ([(level, forced)], [(_, lost)]) = (forced, lost) else {
        panic!("{recorded:?}");
    };
    assert_eq!(*level, Level::WARN);
    assert_eq!(forced["fence"], lost["fence"]);
    assert!(forced["fence"].parse::<u64>().is_ok(), "{forced:?}");
    assert!(forced["key"].contains("taken:7"), "{forced:?}");
}

#[distributed_lock(key = "own:<id>", ttl = "300ms", pool = pool)]
async fn awaits_its_task(pool: &LockPool, id: u32, task: LockRequest) -> Result<(), LockError> {
    drop(leasehold::spawn(task.acquire()).await.expect("no panic"));
    pending().await
}

/// A body awaits a task that waits for the body's own lock, until the lease is lost. Fails if there
/// is no `own-lock` event. Also fails if another loss causes this event.
#[tokio::test]
async fn a_body_waiting_for_its_own_lock_is_an_event() {
    LazyLock::force(&INSTALLED);
    let connect = || LockPool::connect("memory://");
    let (pool, other) = (
        connect().await.expect("here"),
        connect().await.expect("here"),
    );
    let waits = |pool: &LockPool, id| pool.lock(format!("own:{id}")).ttl(TTL).wait(LONG);
    for (id, task) in [
        (1, waits(&pool, 1)),
        (2, waits(&pool, 99)),
        (3, waits(&other, 3)),
        (4, pool.lock("own:4").ttl(TTL)),
    ] {
        let call = wait::within("the loss", LONG, awaits_its_task(&pool, id, task));
        assert!(call.await.expect_err("its lease is short").is_lost());
    }
    let recorded = events("own-lock");
    let [(level, fields)] = &recorded[..] else {
        panic!("{recorded:?}");
    };
    assert_eq!((*level, &*fields["key"]), (Level::WARN, "own:1"));
    assert!(fields["at"].contains("spans_and_events.rs:"), "{fields:?}");
}

#[distributed_lock(key = "<key>", ttl = "30s", replay = "1m", pool = pool)]
async fn answers<T>(pool: &LockPool, key: &str, value: T) -> Result<T, LockError>
where
    T: serde::Serialize + serde::de::DeserializeOwned + Send,
{
    let _ = pool;
    Ok(value)
}

/// A `replay` result is not kept, because it is too large or cannot be written as JSON. Fails if
/// there is no event with the code of the reason. Also fails if a kept result has such an event.
#[tokio::test]
async fn unkept_results_are_events() {
    LazyLock::force(&INSTALLED);
    let builder = LockPool::builder().url("memory://not-kept");
    let pool = builder.replay_limit(100).connect().await.expect("here");
    let long = "x".repeat(101);
    answers(&pool, "long", long).await.expect("it is returned");
    let by_list = BTreeMap::from([(vec![1], 1)]);
    answers(&pool, "map", by_list)
        .await
        .expect("it is returned");
    answers(&pool, "short", 1).await.expect("it is kept");
    let keys = ["result-too-large", "result-not-json"].map(|code| {
        let recorded = events(code).into_iter();
        let keys = recorded.map(|(level, fields)| (level, fields["key"].clone()));
        keys.collect::<Vec<_>>()
    });
    let warned = |key: &str| vec![(Level::WARN, key.to_owned())];
    assert_eq!(keys, [warned("long"), warned("map")]);
}
