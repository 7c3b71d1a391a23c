//! Tests of a Redis server that forgets its Lua scripts again and again, because another client
//! flushes them. The pool must then send the source of the scripts again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold::{LockError, LockPool, distributed_lock};
use leasehold_tests::server::Server;
use leasehold_tests::wait;
use redis::cmd;

const TTL: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(30);

/// A thread that flushes the scripts of the server without a pause.
struct Storm {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Storm {
    fn begin(server: &Server) -> Self {
        let (probe, over) = (server.probe(), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut times = 0;
            while !ends.load(Ordering::Relaxed) {
                probe.run::<()>(cmd("SCRIPT").arg("FLUSH"));
                times += 1;
            }
            times
        });
        Self {
            over,
            thread: Some(thread),
        }
    }

    /// Stops the flushes. Returns their number.
    fn end(mut self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is ended once");
        thread.join().expect("the server answers")
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

#[distributed_lock(key = "single:<id>", ttl = "20s", pool = pool)]
async fn single(pool: &LockPool, id: u32) -> Result<(), LockError> {
    Ok(())
}

/// Fails if a call gets no lock, or if a lease is lost, while another client flushes all scripts
/// repeatedly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_script_flushes_cost_no_lock_and_no_lease() {
    let server = Server::start();
    let probe = server.probe();
    let pool = LockPool::builder().url(server.url()).io_timeout(TTL);
    let pool = wait::connected(pool).await;
    let request = pool.lock("kept").ttl(Duration::from_secs(6)).watchdog();
    let kept = request.acquire().await.expect("free");
    let storm = Storm::begin(&server);
    for id in 0..30 {
        single(&pool, id)
            .await
            .unwrap_or_else(|error| panic!("{id}: {error}"));
        kept.check().expect("it is renewed");
    }
    // A lease without renewals would end during this sleep.
    tokio::time::sleep(Duration::from_secs(7)).await;
    kept.check().expect("it is renewed");
    let several = pool.lock_all(["a", "b"]).ttl(TTL).acquire().await;
    several.expect("free").release().await.expect("held");
    let share = pool.lock("share").ttl(TTL).shared().acquire().await;
    share.expect("free").release().await.expect("held");
    kept.release().await.expect("held");
    let (flushed, sources) = (storm.end(), probe.calls("eval"));
    assert!(flushed > 100, "flushed {flushed} times only");
    assert!(sources > 10, "the source was sent {sources} times only");
}

/// Returns the number of bytes that the server receives while a pool connects and takes a lock.
async fn bytes_to_connect(server: &Server) -> u64 {
    let received = || -> u64 {
        let stats: String = server.probe().run(cmd("INFO").arg("stats"));
        let start = "total_net_input_bytes:";
        let count = stats.lines().find_map(|line| line.strip_prefix(start));
        count.expect("a count").parse().expect("a number")
    };
    let before = received();
    let pool = wait::connected(LockPool::builder().url(server.url())).await;
    single(&pool, 1).await.expect("free");
    received() - before
}

/// Fails if each connection sends the scripts again, or if a server that lacks the scripts does not
/// get them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_are_sent_to_a_server_without_them() {
    let server = Server::start();
    let first = bytes_to_connect(&server).await;
    let second = bytes_to_connect(&server).await;
    server.probe().run::<()>(cmd("SCRIPT").arg("FLUSH"));
    let flushed = bytes_to_connect(&server).await;
    assert!(second < 15_000, "{second} bytes with the scripts there");
    assert!(
        first > 4 * second && flushed > 4 * second,
        "{first} {flushed} {second}"
    );
}

/// The scripts are flushed once before a group of calls. Fails if the requests of these calls
/// contain the long source of their scripts (`EVAL`). The pool must load the scripts again instead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_are_loaded_again_after_one_flush() {
    let server = Server::start();
    let probe = server.probe();
    let pool = LockPool::builder().url(server.url()).io_timeout(TTL);
    let pool = wait::connected(pool).await;
    for round in 0..5 {
        probe.run::<()>(cmd("SCRIPT").arg("FLUSH"));
        let calls = (0..40).map(|id| single(&pool, id));
        for called in futures_util::future::join_all(calls).await {
            called.unwrap_or_else(|error| panic!("{round}: {error}"));
        }
    }
    assert_eq!(probe.calls("eval"), 0);
}

/// Fails if a user without permission for `EVAL` cannot take locks after the flushes have ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_eval_recovers_after_repeated_flushes() {
    let server = Server::start();
    let (_, rule) = leasehold::__test::permissions();
    let mut acl = cmd("ACL");
    acl.arg("SETUSER").arg("few").arg("on").arg(">few");
    for rule in rule.split(' ').filter(|rule| *rule != "+eval") {
        acl.arg(rule);
    }
    server.probe().run::<()>(&acl);
    let url = format!("redis://few:few@127.0.0.1:{}/", server.port());
    let pool = wait::connected(LockPool::builder().url(&url)).await;
    let storm = Storm::begin(&server);
    for id in 0..3 {
        // This call gets the lock if no flush comes between the loading of its script and the
        // execution. Otherwise its error must not be `NOPERM`, because the pool never retries that.
        if let Err(error) = single(&pool, id).await {
            let LockError::Unavailable { source } = &error else {
                panic!("{error:?}");
            };
            assert_ne!(source.code(), "NOPERM", "{error}");
        }
    }
    storm.end();
    let request = pool.lock("after").ttl(TTL).wait(LONG).acquire();
    let guard = wait::within("the storm is over", LONG, request).await;
    guard.expect("free").release().await.expect("held");
}
