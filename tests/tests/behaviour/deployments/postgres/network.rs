//! Tests of network faults between a pool and PostgreSQL: lost answers, black holes, and invalid
//! bytes.

use std::time::{Duration, Instant};

use leasehold::LockPool;
use leasehold_tests::holder::Holder;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::postgres::{Database, Postgres};
use leasehold_tests::probe::Probe;
use leasehold_tests::proxy::{After, Mode, Proxy};
use leasehold_tests::renewal::{self, Renewal};
use leasehold_tests::wait;

use super::{LONG, TTL, patient, works};

/// The default `io_timeout` of a pool.
const IO_TIMEOUT: Duration = Duration::from_secs(1);
/// The ttl of a lease that outlasts a short fault.
const KEPT: Duration = Duration::from_secs(4);

async fn behind_a_proxy(io_timeout: Duration) -> (Database, Proxy, LockPool) {
    let database = Postgres::shared().migrated();
    let proxy = Proxy::start_postgres(database.address());
    let url = database.url_over(proxy.address());
    let pool = LockPool::builder().url(url).io_timeout(io_timeout);
    (database, proxy, wait::connected(pool).await)
}

/// Takes and releases a lock, and loses the answer to `verb`. Makes several attempts, because on a
/// busy machine the pool may give up waiting before the proxy gets the answer to lose.
async fn loses(proxy: &Proxy, pool: &LockPool, verb: &str, after: After) {
    let key = format!("lost-{verb}");
    let before = proxy.counts().lost;
    for _ in 0..20 {
        proxy.lose_replies(verb, 1, after);
        let request = pool.lock(&*key).ttl(TTL).wait(LONG);
        let request = if verb == "join" {
            request.shared()
        } else {
            request
        };
        let guard = request.acquire().await;
        let guard = guard.unwrap_or_else(|error| panic!("{after:?}, {verb}: {error}"));
        // If the answer to a release is lost, the repeated release may find no lock, because the
        // first one was executed. So an error is ignored.
        let _ = guard.release().await;
        let lost = || before < proxy.counts().lost;
        if wait::try_until(Duration::from_secs(2), lost).is_some() {
            return;
        }
    }
    panic!("{after:?}, {verb}: no answer was lost");
}

/// Fails if a call whose answer was lost is refused because of its own lock, or leaves that lock
/// behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_with_a_lost_answer_is_repeated() {
    for after in [After::Cut, After::Silence, After::Error("40P01 deadlock")] {
        let (database, proxy, pool) = behind_a_proxy(IO_TIMEOUT).await;
        let probe = database.probe("lock:");
        for verb in ["acquire", "release", "join"] {
            loses(&proxy, &pool, verb, after).await;
            let gone = || !probe.exists(&format!("lost-{verb}"));
            // This limit is shorter than the ttl, so only the pool can have removed the lock.
            wait::until_async("nothing is left", Duration::from_secs(40), gone).await;
        }
    }
}

/// Messages vanish in one or both directions. Fails if a call then blocks for longer than its
/// `wait`, or if the lock of an abandoned call stays on the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_delays_calls_at_most_by_their_budget() {
    for mode in [Mode::BlackHole, Mode::SwallowReplies, Mode::SwallowRequests] {
        let (database, proxy, pool) = behind_a_proxy(IO_TIMEOUT).await;
        works(&pool, "before").await;
        proxy.set(mode);
        let (started, excuse) = (Instant::now(), Excuse::begin());
        let request = pool.lock("gone").ttl(LONG);
        let request = request.wait(Duration::from_millis(600)).acquire();
        let error = request.await.map(drop).expect_err("no answer comes");
        let took = started.elapsed();
        assert!(error.is_unavailable(), "{mode:?}: {error}");
        let most = Duration::from_millis(850) + excuse.so_far();
        assert!(took < most, "{mode:?}: {took:?}");
        proxy.pass();
        works(&pool, "after").await;
        let probe = database.probe("lock:");
        let gone = || !probe.exists("gone");
        wait::until_async("nothing is left", Duration::from_secs(40), gone).await;
    }
}

/// Fails if a lease is lost because its renewal gets no answer in a short network fault. Also fails
/// if it still counts as held after a long fault.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_survive_only_short_network_faults() {
    // The pool has a long timeout, because each holder requests its lock only once, and a late
    // answer must not fail this request.
    let (_database, proxy, pool) = behind_a_proxy(IO_TIMEOUT * 3).await;
    for mode in [Mode::Stall, Mode::BlackHole, Mode::Garble] {
        renewal::twice(async |round| {
            let mut renewal = Renewal::near(&pool, &format!("{mode:?}-{round}"), KEPT).await;
            proxy.set(mode);
            renewal.outlasts(KEPT / 5).await;
            proxy.pass();
            renewal.succeeds().await
        })
        .await;
    }
    let holder = Holder::enter(&pool, "long").await;
    proxy.set(Mode::BlackHole);
    let ended = wait::within("the loss is reported", LONG, holder.task).await;
    proxy.pass();
    let ended = ended.expect("no panic").map_err(|error| error.is_lost());
    assert_eq!(ended, Err(true));
    works(&pool, "long").await;
}

/// The message about the free lock does not reach the waiting call. Fails if the call does not get
/// the lock with its next regular request, because it waits for the message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_message_delays_a_call_by_one_poll() {
    let (database, proxy, pool) = behind_a_proxy(LONG).await;
    let other = patient(&database).await;
    let held = super::take(&other, "untold").await;
    proxy.set(Mode::LoseMessages);
    let next = pool.lock("untold").ttl(TTL).wait(LONG).acquire();
    let next = wait::started(next).await;
    works(&pool, "settled").await;
    held.release().await.expect("still held");
    // This limit is half of the lock's ttl, and far longer than the time until the next regular
    // request.
    let guard = wait::within("it looks", Duration::from_secs(30), next).await;
    drop(guard.expect("its turn comes"));
}
