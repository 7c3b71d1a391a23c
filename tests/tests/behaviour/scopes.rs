//! Tests of `LockPool::scope`, which sets the pool for a future, and of `leasehold::spawn`, whose
//! tasks inherit the scope. No pool is installed in this program.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use leasehold::{LockError, LockGuard, LockPool, distributed_lock};
use leasehold_tests::wait;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Barrier, Notify};
use tokio::task::{JoinSet, LocalSet, spawn_blocking, spawn_local};

const TTL: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_secs(10);

type Result<T = ()> = std::result::Result<T, LockError>;

async fn memory() -> LockPool {
    LockPool::connect("memory://").await.expect("it opens")
}

/// Returns a pool and a lock held on it. A call refused because of this lock has used this pool.
async fn marked(id: u64) -> (LockPool, LockGuard) {
    let pool = memory().await;
    let held = pool.lock(format!("order:{id}")).ttl(TTL).acquire().await;
    (pool, held.expect("free"))
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime starts")
}

#[distributed_lock(key = "order:<id>", ttl = "20s")]
async fn create_order(id: u64) -> Result<u64> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", ttl = "20s", reentrant)]
async fn charge(id: u64) -> Result<u64> {
    Ok(id)
}

/// True if the call used the pool of [`marked`], in which the lock is held.
fn is_marked(ended: &Result<u64>) -> bool {
    matches!(ended, Err(LockError::Contended { .. }))
}

/// Fails if two tests of one process share a lock although their pools are separate.
#[test]
fn sixteen_tests_with_the_same_id_run_in_parallel() {
    const TESTS: usize = 16;

    #[distributed_lock(key = "order:<id>", ttl = "20s")]
    async fn meets(id: u64, all: &Barrier) -> Result<u64> {
        wait::within("all are inside", LIMIT, all.wait()).await;
        Ok(id)
    }

    let all = Barrier::new(TESTS);
    let test = || runtime().block_on(async { memory().await.scope(meets(42, &all)).await });
    thread::scope(|threads| {
        let tests: Vec<_> = (0..TESTS).map(|_| threads.spawn(test)).collect();
        for test in tests {
            assert_eq!(test.join().expect("no panic"), Ok(42));
        }
    });
}

/// Fails if a task of `leasehold::spawn` loses the scope. Also fails if the error of a call in a
/// plain tokio task, which has no scope, does not suggest a remedy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spawned_task_keeps_the_scope() {
    let (pool, _held) = marked(42).await;
    let other = memory().await;
    let tasks = pool.scope(async {
        let spawned = leasehold::spawn(create_order(42)).await;
        assert!(is_marked(&spawned.expect("no panic")));
        // The next calls run in a task spawned by a task, and in a task spawned in an inner scope.
        let nested = leasehold::spawn(async { leasehold::spawn(create_order(42)).await });
        let nested = nested.await.expect("no panic");
        assert!(is_marked(&nested.expect("no panic")));
        let inner = other.scope(async { leasehold::spawn(create_order(42)).await });
        assert_eq!(inner.await.expect("no panic"), Ok(42));

        let outside = tokio::spawn(create_order(42)).await.expect("no panic");
        let error = outside.expect_err("the scope does not reach there");
        assert_eq!(error, LockError::NotInstalled);
        for way in ["leasehold::spawn", "pool()?.scope", "leasehold::init"] {
            assert!(error.to_string().contains(way), "no {way} in {error}");
        }
    });
    wait::within("all tasks", LIMIT, tasks).await;
}

/// Fails if the scope cannot be passed to a future that runs neither in the scope nor in a task of
/// `leasehold::spawn`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scope_can_be_passed_to_any_future() {
    let (pool, _held) = marked(42).await;
    let ways = pool.scope(async {
        let given = || leasehold::pool().map(|pool| pool.scope(create_order(42)));
        let mut set = JoinSet::new();
        set.spawn(given()?);
        for ended in set.join_all().await {
            assert!(is_marked(&ended));
        }

        let work = given()?;
        let here = Handle::current();
        let blocking = spawn_blocking(move || here.block_on(work)).await;
        assert!(is_marked(&blocking.expect("no panic")));

        let work = given()?;
        let thread = thread::spawn(|| runtime().block_on(work));
        assert!(is_marked(&thread.join().expect("no panic")));

        let local = LocalSet::new();
        let pool = leasehold::pool()?;
        let local = local.run_until(async move {
            let here = Rc::new(42);
            spawn_local(pool.scope(async move { create_order(*here).await })).await
        });
        assert!(is_marked(&local.await.expect("no panic")));
        Ok::<(), LockError>(())
    });
    let ended = wait::within("all ways", LIMIT, ways).await;
    ended.expect("there is a pool");
}

/// Fails if a task enters a lock of the body that spawned it, or counts as a nested call of this
/// body.
#[tokio::test]
async fn a_task_holds_no_lock_of_its_caller() {
    let pool = memory().await;
    let body = pool.lock("order:42").ttl(TTL).run(async {
        let nested = charge(42).await;
        assert_eq!(nested, Ok(42), "the body itself enters its lock");
        let plain = leasehold::spawn(create_order(42)).await;
        let reentrant = leasehold::spawn(charge(42)).await;
        for ended in [plain, reentrant] {
            let ended = ended.expect("no panic");
            assert!(
                matches!(ended, Err(LockError::Contended { .. })),
                "{ended:?}"
            );
        }
    });
    let ended = wait::within("the body", LIMIT, pool.scope(body)).await;
    ended.expect("free");
}

/// Fails if a task ends when its handle is dropped, or if its lock stays after the task is aborted
/// or panics.
#[tokio::test]
async fn a_spawned_task_ends_like_a_tokio_task() {
    struct Signals {
        inside: Notify,
        go_on: Notify,
    }

    #[distributed_lock(key = "order:<id>", ttl = "20s")]
    async fn signals(id: u64, signals: Arc<Signals>) -> Result<u64> {
        signals.inside.notify_one();
        signals.go_on.notified().await;
        Ok(id)
    }

    #[distributed_lock(key = "order:<id>", ttl = "20s")]
    async fn panics(id: u64) -> Result<u64> {
        panic!("as the test wants it")
    }

    #[distributed_lock(key = "order:<id>", ttl = "20s")]
    async fn never_ends(id: u64, inside: Arc<Notify>) -> Result<u64> {
        inside.notify_one();
        pending().await
    }

    let pool = memory().await;
    let free = async || {
        let request = pool.lock("order:42").ttl(TTL).wait(LIMIT);
        let guard = request.acquire().await.expect("the lock comes free");
        guard.release().await.expect("it is held");
    };

    let panicked = pool.scope(async { leasehold::spawn(panics(42)).await });
    assert!(panicked.await.is_err_and(|error| error.is_panic()));
    free().await;

    let inside = Arc::new(Notify::new());
    let aborted = pool.scope(async {
        let task = leasehold::spawn(never_ends(42, Arc::clone(&inside)));
        wait::within("the body", LIMIT, inside.notified()).await;
        task.abort();
        task.await
    });
    assert!(aborted.await.is_err_and(|error| error.is_cancelled()));
    free().await;

    let flags = Arc::new(Signals {
        inside: Notify::new(),
        go_on: Notify::new(),
    });
    let spawned = pool.scope(async { drop(leasehold::spawn(signals(42, Arc::clone(&flags)))) });
    spawned.await;
    wait::within("the body", LIMIT, flags.inside.notified()).await;
    let refused = pool.scope(create_order(42)).await;
    assert!(is_marked(&refused), "the task runs on: {refused:?}");
    flags.go_on.notify_one();
    free().await;
}

/// Fails if `spawn` needs a scope. Also fails if it does not panic outside of a runtime, as
/// `tokio::spawn` does.
#[test]
fn spawn_needs_no_scope() {
    let task = runtime().block_on(async {
        assert_eq!(leasehold::spawn(async { 7 }).await.expect("no panic"), 7);
        leasehold::spawn(create_order(42)).await
    });
    assert_eq!(task.expect("no panic"), Err(LockError::NotInstalled));
    let without_a_runtime = catch_unwind(AssertUnwindSafe(|| leasehold::spawn(async {})));
    assert!(without_a_runtime.is_err());
}

/// Fails if the layer in `docs/troubleshooting.md` does not pass the pool to each request. The
/// server spawns a task for each connection, and such a task does not inherit the scope.
#[tokio::test]
async fn a_layer_passes_the_scope_to_requests() {
    use axum::Router;
    use axum::extract::{Path, Request};
    use axum::middleware::{Next, from_fn};
    use axum::routing::post;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    let (pool, _held) = marked(42).await;
    let handler = |Path(id): Path<u64>| async move { format!("{:?}", create_order(id).await) };
    let routes = Router::new().route("/orders/{id}", post(handler));
    let layer = from_fn(move |request: Request, next: Next| pool.scope(next.run(request)));
    let service = routes.layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let server = tokio::spawn(async move { axum::serve(listener, service).await });
    for (id, expected) in [(41, "Ok(41)"), (42, "is held")] {
        let mut client = TcpStream::connect(address).await.expect("it serves");
        let request = format!(
            "POST /orders/{id} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        );
        client
            .write_all(request.as_bytes())
            .await
            .expect("it reads");
        let mut answer = String::new();
        let read = client.read_to_string(&mut answer);
        let read = wait::within("the answer", LIMIT, read).await;
        read.expect("it answers");
        assert!(answer.contains(expected), "{answer}");
    }
    server.abort();
}
