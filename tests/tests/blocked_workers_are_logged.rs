//! Checks the event that is logged for a blocking call on a runtime's thread, and the spans of
//! blocking calls. The test is in a separate program, because it installs a subscriber, and because
//! a process logs this event only once.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use leasehold::__test::reports_delivered;
use leasehold::{LockError, LockPool, distributed_lock};
use tokio::runtime::Builder;
use tokio::task::{block_in_place, spawn_blocking};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

const TTL: Duration = Duration::from_secs(20);

static EVENTS: Mutex<Vec<(Level, Fields)>> = Mutex::new(Vec::new());
static OUTCOMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tested fields of an event or of a span.
#[derive(Debug, Default)]
struct Fields {
    code: String,
    at: String,
    outcome: Option<String>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "code" => self.code = format!("{value:?}").replace('"', ""),
            "at" => self.at = format!("{value:?}"),
            "lock.outcome" => self.outcome = Some(format!("{value:?}").replace('"', "")),
            _ => {}
        }
    }
}

struct Book;

impl Subscriber for Book {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("leasehold")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Id::from_u64(LAST.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        lock(&OUTCOMES).extend(fields.outcome);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        lock(&EVENTS).push((*event.metadata().level(), fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Returns the logged source locations of blocking calls on runtime threads.
fn blocked() -> Vec<String> {
    reports_delivered();
    let events = lock(&EVENTS);
    let of = |(level, fields): &(Level, Fields)| {
        let is = fields.code == "worker-blocked";
        assert!(!is || *level == Level::WARN);
        is.then(|| fields.at.clone())
    };
    events.iter().filter_map(of).collect()
}

fn call(pool: &LockPool) {
    let guard = pool.lock("k").ttl(TTL).acquire_blocking().expect("free");
    guard.release_blocking().expect("held");
}

const LINE: u32 = line!() + 1;
#[distributed_lock(key = "k", ttl = "20s", watchdog, pool = pool)]
fn locked(pool: &LockPool) -> Result<bool, LockError> {
    Ok(pool.is_held("k"))
}

/// Fails if a blocked worker is not logged, is logged twice, or is logged with a wrong source
/// location. Also fails if a call on a thread where blocking is allowed is logged, or if a blocking
/// call lacks the spans of an async call.
#[test]
fn the_first_blocked_worker_is_logged_with_its_place() {
    tracing::subscriber::set_global_default(Book).expect("the only one");
    let several = Builder::new_multi_thread().enable_all().build();
    let several = several.expect("a runtime");
    let pool = several.block_on(LockPool::connect("memory://"));
    let pool = pool.expect("it is in memory");
    call(&pool);
    let here = pool.clone();
    thread::spawn(move || call(&here)).join().expect("no panic");
    let here = pool.clone();
    several
        .block_on(async move { spawn_blocking(move || call(&here)).await })
        .expect("no panic");
    let here = pool.clone();
    let moved = several.spawn(async move { block_in_place(|| call(&here)) });
    several.block_on(moved).expect("no panic");
    assert_eq!(blocked(), [""; 0]);
    let outcomes = std::mem::take(&mut *lock(&OUTCOMES));
    assert_eq!(outcomes, ["granted", "released"].repeat(4));

    let only = Builder::new_current_thread().enable_all().build();
    let only = only.expect("a runtime");
    for runtime in [&only, &several, &only] {
        let here = pool.clone();
        let worker = runtime.spawn(async move { locked(&here) });
        assert_eq!(runtime.block_on(worker).expect("no panic"), Ok(true));
        assert_eq!(blocked(), [format!("{}:{LINE}", file!())]);
    }
    let outcomes = std::mem::take(&mut *lock(&OUTCOMES));
    assert_eq!(outcomes, ["granted", "released"].repeat(3));
}
