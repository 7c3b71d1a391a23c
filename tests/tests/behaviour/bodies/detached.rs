//! Tests of detached bodies. Such a body runs to its end inside the lock, even if its caller is
//! dropped.

use std::fmt::Display;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use leasehold::{LockError, LockPool, distributed_lock};
use leasehold_tests::stores::Store;
use leasehold_tests::wait;
use leasehold_tests::{on_every_store, on_stores};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::is_released;

const TTL: Duration = Duration::from_secs(20);
/// Time limit for one call. A call takes longer only if it hangs.
const HANG: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

type Result<T = ()> = std::result::Result<T, LockError>;

/// Signals between a body and its test.
#[derive(Default)]
struct Order {
    entered: Notify,
    go_on: Notify,
    done: AtomicU32,
}

impl Order {
    fn done(&self) -> u32 {
        self.done.load(Ordering::SeqCst)
    }

    /// Takes `self` and all arguments by value, because a detached body must own everything that it
    /// needs.
    #[distributed_lock(key = "k", ttl = "20s", detach, guard = lock, pool = pool)]
    async fn place(self: Arc<Self>, pool: LockPool, id: u32) -> Result<u32> {
        self.entered.notify_one();
        self.go_on.notified().await;
        lock.check()?;
        self.done.store(id, Ordering::SeqCst);
        Ok(id)
    }
}

/// Fails if the body is dropped with its caller, or if the body continues without the lock.
async fn the_body_outlives_its_caller(store: &Store) {
    let pool = store.pool().await;
    let order = Arc::new(Order::default());
    let call = Arc::clone(&order).place(pool.clone(), 7);
    tokio::select! {
        ended = call => panic!("{ended:?}"),
        () = order.entered.notified() => {}
    }
    sleep(PAUSE).await;
    assert!(store.probe.exists("k"), "released with the caller");
    assert_eq!(order.done(), 0);
    order.go_on.notify_one();
    wait::until_async("the body's end", HANG, || order.done() == 7).await;
    wait::until_async("the release", HANG, || !store.probe.exists("k")).await;
}

/// Fails if the caller does not get the result, or gets it before the release.
async fn the_caller_gets_the_result(store: &Store) {
    let pool = store.pool().await;
    let order = Arc::new(Order::default());
    order.go_on.notify_one();
    let asked = Instant::now();
    assert_eq!(Arc::clone(&order).place(pool.clone(), 7).await, Ok(7));
    is_released(&*store.probe, "k", asked).await;
    let sum = pool.lock("k").ttl(TTL).run_detached(async { 1 + 1 });
    assert_eq!(sum.await, Ok(2));
}

/// Fails if the body runs, or the lock stays held, after the call was dropped while it waited for
/// the lock.
async fn a_call_dropped_while_waiting_runs_no_body(store: &Store) {
    let pool = store.pool().await;
    assert!(store.probe.take("k", TTL));
    let ran = Arc::new(AtomicU32::new(0));
    for _ in 0..20 {
        let ran = Arc::clone(&ran);
        let body = async move { ran.fetch_add(1, Ordering::SeqCst) };
        let call = pool.lock("k").ttl(TTL).wait(HANG).run_detached(body);
        assert!(timeout(Duration::from_millis(2), call).await.is_err());
    }
    store.probe.give_back("k");
    sleep(PAUSE).await;
    wait::until_async("free", HANG, || !store.probe.exists("k")).await;
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[distributed_lock(key = "k", ttl = "20s", detach, pool = pool)]
async fn fails(pool: LockPool, order: Arc<Order>) -> Result {
    order.entered.notify_one();
    order.go_on.notified().await;
    panic!("the body's own");
}

/// Fails if a panic of the body does not reach the caller as a panic, or if the lock stays held
/// after it.
async fn a_panic_resumes_in_the_caller(store: &Store) {
    let pool = store.pool().await;
    let order = Arc::new(Order::default());
    order.go_on.notify_one();
    let asked = Instant::now();
    let call = AssertUnwindSafe(fails(pool.clone(), Arc::clone(&order)));
    let panic = call.catch_unwind().await.expect_err("it panics");
    assert_eq!(panic.downcast_ref(), Some(&"the body's own"));
    // The lock must be released before the panic resumes in the caller.
    is_released(&*store.probe, "k", asked).await;
    // Checks the release again, but drops the caller before the panic.
    let order = Arc::new(Order::default());
    tokio::select! {
        ended = fails(pool, Arc::clone(&order)) => panic!("{ended:?}"),
        () = order.entered.notified() => {}
    }
    order.go_on.notify_one();
    wait::until_async("the release", HANG, || !store.probe.exists("k")).await;
}

/// Fails if a detached body is not dropped after its lease is lost.
async fn a_lost_lease_drops_the_body(store: &Store) {
    let pool = store.pool().await;
    let dropped = Arc::new(());
    let witness = Arc::clone(&dropped);
    let body = async move {
        pending::<()>().await;
        drop(witness);
    };
    let call = pool
        .lock("k")
        .ttl(Duration::from_millis(100))
        .run_detached(body);
    let lost = wait::within("the loss", HANG, call).await;
    assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
    assert_eq!(Arc::strong_count(&dropped), 1);
}

#[distributed_lock(key = "k", ttl = "100ms", detach, on_lost = "continue", guard = lock, pool = pool)]
async fn goes_on(pool: LockPool) -> Result<bool> {
    lock.lost().await;
    tokio::task::yield_now().await;
    Ok(lock.check().is_err())
}

async fn on_lost_applies_to_a_detached_body(store: &Store) {
    let pool = store.pool().await;
    let ended = wait::begun(|| goes_on(pool.clone()));
    assert_eq!(wait::within("the body", HANG, ended).await, Ok(true));
}

#[distributed_lock(key = "n:<number>", ttl = "20s", detach, pool = pool)]
async fn generic<T, F>(pool: LockPool, number: T, make: F) -> Result<impl Display + use<T, F>>
where
    T: Display + Send + 'static,
    F: Fn(&str) -> String + Send + 'static,
{
    tokio::task::yield_now().await;
    Ok(make(&number.to_string()))
}

async fn generic_functions_can_be_detached(store: &Store) {
    let text = generic(store.pool().await, 7, |text| format!("<{text}>")).await;
    assert_eq!(text.map(|text| text.to_string()), Ok("<7>".to_owned()));
}

#[distributed_lock(key = "k", ttl = "20s")]
async fn scoped() -> Result {
    Ok(())
}

#[distributed_lock(key = "k", ttl = "20s", reentrant, detach)]
async fn scoped_and_detached(depth: u32) -> Result<u32> {
    let nested = scoped().await;
    assert!(
        matches!(nested, Err(LockError::WouldDeadlock { .. })),
        "{nested:?}"
    );
    match depth {
        0 => Ok(0),
        _ => Ok(deeper(depth - 1).await? + 1),
    }
}

/// Declares that the future is `Send`, which the compiler cannot infer through a recursion.
fn deeper(depth: u32) -> Pin<Box<dyn Future<Output = Result<u32>> + Send>> {
    Box::pin(scoped_and_detached(depth))
}

/// Fails if a call inside a detached body does not use the pool of the scope around this body. Also
/// fails if this call does not count as nested in the body's lock. No pool is installed, so a call
/// outside of the scope would fail.
async fn a_detached_body_keeps_scope_and_call_path(store: &Store) {
    let pool = store.pool().await;
    let asked = Instant::now();
    let depth = pool.scope(scoped_and_detached(3));
    assert_eq!(wait::within("a recursion", HANG, depth).await, Ok(3));
    is_released(&*store.probe, "k", asked).await;
}

/// A nested call with `detach` is dropped. Fails if its body continues inside the lock of the
/// enclosing call. Also fails if the body of another detached call can enter that lock, because
/// this body can outlive the enclosing call.
async fn detached_calls_nest_safely_in_other_locks(store: &Store) {
    let pool = store.pool().await;
    let ends = Arc::new(());
    let witness = Arc::clone(&ends);
    let inside = pool.clone();
    let outer = pool.lock("k").ttl(TTL).run(async {
        let part = pool
            .lock("k")
            .ttl(TTL)
            .reentrant()
            .run_detached(async move {
                pending::<()>().await;
                drop(witness);
            });
        assert!(timeout(PAUSE, part).await.is_err());
        assert_eq!(Arc::strong_count(&ends), 1, "it ends with its caller");
        let task = pool
            .lock("j")
            .ttl(TTL)
            .run_detached(async move { inside.lock("k").ttl(TTL).reentrant().run(async {}).await });
        task.await
    });
    let refused = outer.await.expect("free").expect("free");
    assert!(
        matches!(refused, Err(LockError::Contended { .. })),
        "{refused:?}"
    );
}

/// Fails if the shutdown does not wait for a body whose caller was dropped.
async fn a_shutdown_waits_for_detached_bodies(store: &Store) {
    let pool = store.pool().await;
    let order = Arc::new(Order::default());
    tokio::select! {
        ended = Arc::clone(&order).place(pool.clone(), 7) => panic!("{ended:?}"),
        () = order.entered.notified() => {}
    }
    let last = Arc::clone(&order);
    tokio::spawn(async move {
        sleep(5 * PAUSE).await;
        last.go_on.notify_one();
    });
    let report = pool.shutdown(HANG).await;
    assert_eq!((order.done(), report.still_held), (7, 0), "{report:?}");
}

on_every_store! {
    the_body_outlives_its_caller,
    the_caller_gets_the_result,
    a_call_dropped_while_waiting_runs_no_body,
    a_panic_resumes_in_the_caller,
    a_lost_lease_drops_the_body,
    on_lost_applies_to_a_detached_body,
    generic_functions_can_be_detached,
    a_detached_body_keeps_scope_and_call_path,
    detached_calls_nest_safely_in_other_locks,
    a_shutdown_waits_for_detached_bodies,
}

on_stores!(sentinel cluster redlock: (
    the_body_outlives_its_caller,
    a_lost_lease_drops_the_body,
));

/// Fails if the body of an HTTP handler ends because its client disconnects during the request.
#[tokio::test]
async fn the_body_continues_after_its_client_disconnects() {
    use axum::Router;
    use axum::extract::{Path, State};
    use axum::routing::post;
    use tokio::io::AsyncWriteExt as _;

    #[derive(Clone)]
    struct Shop {
        locks: LockPool,
        order: Arc<Order>,
    }

    #[distributed_lock(key = "order:<id>", ttl = "20s", detach, pool = shop.locks)]
    async fn create(State(shop): State<Shop>, Path(id): Path<u32>) -> Result<String> {
        shop.order.entered.notify_one();
        shop.order.go_on.notified().await;
        shop.order.done.store(id, Ordering::SeqCst);
        Ok(format!("order {id}"))
    }

    let shop = Shop {
        locks: LockPool::connect("memory://detach-axum")
            .await
            .expect("it connects"),
        order: Arc::default(),
    };
    let (order, locks) = (Arc::clone(&shop.order), shop.locks.clone());
    let handler = |state: State<Shop>, id: Path<u32>| async {
        create(state, id).await.map_err(|error| error.to_string())
    };
    let service = Router::new()
        .route("/orders/{id}", post(handler))
        .with_state(shop);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let server = tokio::spawn(async move { axum::serve(listener, service).await });

    let mut client = tokio::net::TcpStream::connect(address)
        .await
        .expect("it serves");
    let request = b"POST /orders/7 HTTP/1.1\r\nhost: shop\r\ncontent-length: 0\r\n\r\n";
    client.write_all(request).await.expect("it reads");
    order.entered.notified().await;
    drop(client);
    sleep(5 * PAUSE).await;
    assert_eq!(order.done(), 0);
    order.go_on.notify_one();
    wait::until_async("the order", HANG, || order.done() == 7).await;
    let free = locks.lock("order:7").ttl(TTL).wait(HANG).acquire().await;
    assert!(free.is_ok(), "{free:?}");
    server.abort();
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all();
    builder.build().expect("a runtime starts")
}

/// Fails if the caller waits forever, or gets a result, although the runtime of the body was
/// dropped.
#[test]
fn a_caller_gets_an_error_when_the_runtime_shuts_down() {
    let other = runtime();
    let here = runtime();
    let pool = LockPool::connect("memory://detach-runtime");
    let pool = here.block_on(pool).expect("it connects");
    let order = Arc::new(Order::default());
    let body = Arc::clone(&order);
    let mut call = Box::pin(pool.lock("k").ttl(TTL).run_detached(async move {
        body.done.store(1, Ordering::SeqCst);
        pending::<()>().await;
    }));
    {
        // On this thread, `other` is the current runtime during this block, so the body is spawned
        // on `other`.
        let _inside = other.enter();
        wait::until("the body", HANG, || {
            assert!((&mut call).now_or_never().is_none());
            order.done() == 1
        });
    }
    drop(other);
    let ended = here.block_on(call);
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
    let free = pool.lock("k").ttl(TTL).wait(HANG).acquire();
    assert!(here.block_on(free).is_ok());
}

/// Fails unless a call outside of a runtime, where no task can be spawned, returns an error at
/// once.
#[test]
fn detach_outside_of_a_runtime_is_an_error() {
    let here = runtime();
    let pool = here
        .block_on(LockPool::connect("memory://detach-outside"))
        .expect("it connects");
    let call = pool.lock("k").ttl(TTL).run_detached(async {});
    let error = call
        .now_or_never()
        .expect("at once")
        .expect_err("no runtime");
    assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    assert!(error.to_string().contains("tokio"), "{error}");
}
