//! Tests of `Kit::on`, which runs the same tests on real servers.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use leasehold::testing::{Kit, Point};
use leasehold::{LockError, LockPool, distributed_lock};
use leasehold_tests::postgres::Postgres;
use leasehold_tests::scratch::Scratch;
use leasehold_tests::server::{Server, ServerOptions};
use tokio::time::Instant;

use super::{is_contended, is_lost, request, secs};

#[distributed_lock(key = "order:<id>", ttl = "10s", watchdog, wait = "30s")]
async fn create_order(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

/// Connects a kit with a long `io_timeout`, because other tests may keep the server busy.
async fn on_busy_machine(url: &str) -> Kit {
    let builder = LockPool::builder().url(url).io_timeout(secs(30));
    Kit::connect(builder).await.expect("the server is up")
}

/// Fails if a kit ignores the `password_file` of its URL.
#[tokio::test]
async fn a_password_file_is_read() {
    let server = ServerOptions::new().password("hunter2").start();
    let folder = Scratch::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.file("password");
    std::fs::write(&file, "hunter2").expect("a file");
    let (port, file) = (server.port(), file.display());
    let url = format!("redis://127.0.0.1:{port}/?password_file={file}");
    let kit = on_busy_machine(&url).await;
    kit.hold("order:42").await.release().await;
}

/// Runs a typical test with this kit: other holders, an outage, a slow store and a lost lock.
async fn scene(kit: Kit) {
    let other = kit.hold("order:42").await;
    let ttl = secs(10);
    assert!(is_contended(
        &kit.pool().lock("order:42").ttl(ttl).acquire().await
    ));
    let waits = tokio::spawn(kit.scope(create_order(42)));
    other.release().await;
    assert_eq!(waits.await.expect("no panic"), Ok(42));

    let info = kit
        .pool()
        .inspect("order:42")
        .await
        .expect("the store answers");
    assert!(info.holders.is_empty());

    let (_one, _two) = (
        kit.hold("report").permits(2).await,
        kit.hold("report").permits(2).await,
    );
    let third = kit
        .pool()
        .lock("report")
        .permits(2)
        .ttl(ttl)
        .acquire()
        .await;
    assert!(is_contended(&third));

    kit.store_down();
    let tries = kit
        .pool()
        .lock("order:42")
        .ttl(ttl)
        .wait(Duration::from_millis(500));
    let refused = tries.acquire().await;
    assert!(refused.is_err_and(|error| error.is_unavailable()));
    kit.store_up();
    kit.delay(Duration::from_millis(200));
    let begun = Instant::now();
    assert_eq!(kit.scope(create_order(42)).await, Ok(42));
    assert!(
        Duration::from_millis(400) <= begun.elapsed(),
        "acquire and release"
    );
    kit.delay(Duration::ZERO);

    kit.lose_when("order:42", Point::After(Duration::from_millis(100)));
    let lost = request(&kit)
        .watchdog()
        .run(std::future::pending::<()>())
        .await;
    assert!(is_lost(&lost));
    let next = request(&kit).wait(secs(30)).acquire().await;
    assert!(next.is_ok(), "the server has lost the lock too");
    let history = kit.history();
    assert!(history.is_exclusive(), "{history}");
    assert_eq!((history.losses(), history.refusals()), (1, 3), "{history}");
}

/// Fails if a kit does not work on Redis.
#[tokio::test]
async fn a_kit_works_on_redis() {
    let server = Server::start();
    scene(on_busy_machine(&server.url()).await).await;
}

/// Fails if a kit does not work on PostgreSQL.
#[tokio::test]
async fn a_kit_works_on_postgres() {
    let database = Postgres::shared().migrated();
    scene(on_busy_machine(&database.url()).await).await;
}

/// Fails if a kit does not work in memory.
#[tokio::test(start_paused = true)]
async fn a_kit_works_in_memory() {
    scene(Kit::on("memory://").await.expect("it is in memory")).await;
}

/// Fails if two kits on one server share locks.
#[tokio::test]
async fn kits_on_one_server_share_nothing() {
    let server = Server::start();
    let one = on_busy_machine(&server.url()).await;
    let two = on_busy_machine(&server.url()).await;
    let _held = one.hold("order:42").await;
    let _also = two.hold("order:42").await;
    assert!(is_contended(&request(&one.clone()).acquire().await));
}

/// On a server, `lose_when` supports only `Point::After`. Fails if it accepts another `Point`, or
/// if the panic does not suggest a remedy.
#[tokio::test]
async fn only_time_losses_work_on_a_server() {
    let server = Server::start();
    let kit = on_busy_machine(&server.url()).await;
    for point in [
        Point::AfterPolls(1),
        Point::NextRenewal,
        Point::BeforeRelease,
    ] {
        let asked = AssertUnwindSafe(async { kit.lose_when("order:42", point) });
        let panic = asked.catch_unwind().await.expect_err("it is not possible");
        let text = panic.downcast_ref::<String>().expect("a text");
        assert!(
            text.contains("Point::After(duration)") && text.contains("Kit::new()"),
            "{text}"
        );
    }
}

/// Fails if `Kit::on` accepts a server in paused time, in which every time-out passes before an
/// answer. Also fails if it accepts a named memory store, whose locks other tests could share, or
/// an unknown URL. Each error must suggest a remedy.
#[tokio::test(start_paused = true)]
async fn an_impossible_kit_returns_a_clear_error() {
    for (url, advice) in [
        ("redis://127.0.0.1/", "without `start_paused`"),
        ("memory://shop", "Kit::new()"),
        ("mongodb://127.0.0.1/", "redis://host"),
    ] {
        let error = Kit::on(url).await.expect_err("it cannot be").to_string();
        assert!(error.contains(advice), "{url}: {error}");
    }
}
