//! Tests that no caller keeps waiting after a panic of the engine.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::time::Duration;

use leasehold::__test::inside_engine;
use leasehold::{LockError, LockGuard, LockPool};
use leasehold_tests::server::Server;
use leasehold_tests::wait;
use tokio::runtime::Handle;

const TTL: Duration = Duration::from_secs(60);
const LIMIT: Duration = Duration::from_secs(30);

type Acquire = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>;

/// Starts an acquire. When this function returns, the engine has received the request.
async fn begin(pool: &LockPool, key: String) -> Acquire {
    let request = pool.lock(key).ttl(TTL).wait(TTL);
    let mut acquire: Acquire = Box::pin(request.acquire());
    poll_fn(|context| {
        assert!(acquire.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    acquire
}

fn is_stopped(ended: Result<LockGuard, LockError>) -> bool {
    matches!(ended, Err(LockError::Unavailable { source }) if source.code() == "stopped")
}

/// The engine panics on a caller's thread, while other callers wait for the engine's mutex. Fails
/// if a call then waits forever, or if a lease still counts as held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_waits_for_a_panicked_engine() {
    let server = Server::start();
    panics_at("memory://engine-panic").await;
    panics_at(&server.url()).await;
}

async fn panics_at(url: &str) {
    let pool = LockPool::builder().url(url).io_timeout(LIMIT);
    let pool = wait::connected(pool).await;
    let held = pool.lock("held").ttl(TTL).acquire().await.expect("free");
    let mut pending = Vec::new();
    for _ in 0..20 {
        pending.push(begin(&pool, "held".to_owned()).await);
    }
    let ((reached, is_reached), (go, gone)) = (channel(), channel());
    let inside = pool.clone();
    // This thread holds the engine's mutex until the test sends a signal, and then panics.
    let panics = tokio::task::spawn_blocking(move || {
        inside_engine(&inside, move || {
            reached.send(()).expect("the test waits");
            gone.recv().expect("the test is done");
            panic!("as this test wants it");
        });
    });
    is_reached.recv_timeout(LIMIT).expect("it is inside");
    let mut behind = Vec::new();
    for number in 0..20 {
        let request = pool.lock(format!("behind-{number}")).ttl(TTL).wait(TTL);
        let runtime = Handle::current();
        behind.push(tokio::task::spawn_blocking(move || {
            runtime.block_on(request.acquire())
        }));
    }
    go.send(()).expect("the engine waits for it");

    let ended = wait::within("the thread that met the panic goes on", LIMIT, panics).await;
    ended.expect("the panic does not reach it");
    for acquire in pending {
        let ended = wait::within("a caller is notified", LIMIT, acquire).await;
        assert!(is_stopped(ended));
    }
    for acquire in behind {
        let ended = wait::within("a caller behind the mutex is notified", LIMIT, acquire).await;
        assert!(is_stopped(ended.expect("no panic")));
    }
    wait::within("the holder is notified", LIMIT, held.lost()).await;
    assert!(matches!(held.check(), Err(LockError::Lost { .. })));
    let released = wait::within("a release ends", LIMIT, held.release()).await;
    assert!(matches!(released, Err(LockError::Lost { .. })));
    let late = pool.lock("late").ttl(TTL).wait(TTL).acquire();
    assert!(is_stopped(
        wait::within("a late call is notified", LIMIT, late).await
    ));
    let report = wait::within("a shutdown ends", LIMIT, pool.shutdown(TTL)).await;
    assert_eq!(report.still_held, 0);
}
