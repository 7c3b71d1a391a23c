//! Tests that clients without leasehold's queue also get a key that leasehold's processes request
//! all the time. For this purpose the processes sometimes leave the key free for a while (a pause).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::poll;
use leasehold::{Fairness, LockError, LockPool, LockPoolBuilder};
use leasehold_tests::probe::Probe;
use leasehold_tests::server::Server;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;
use redis::cmd;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const TTL: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(60);
/// Length of the pause in which leasehold leaves the key free.
const PAUSE: Duration = Duration::from_millis(300);
/// Number of times that each client must get the lock while leasehold's calls continue.
const ENOUGH: usize = 4;

/// Counters of the holders of the lock `k` and their overlaps, and the signal that ends the test.
#[derive(Debug, Default)]
struct Ground {
    inside: AtomicUsize,
    overlaps: AtomicUsize,
    ours: AtomicUsize,
    over: AtomicBool,
}

impl Ground {
    fn enter(&self) {
        if 0 < self.inside.fetch_add(1, Ordering::SeqCst) {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn leave(&self) {
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

/// Takes the lock again and again without a break, until the test is over.
async fn keep_busy(pool: LockPool, stay: Duration, ground: Arc<Ground>) {
    while !ground.is_over() {
        let guard = pool.lock("k").ttl(TTL).wait(LONG).acquire().await;
        let guard = guard.expect("its turn comes");
        ground.enter();
        tokio::time::sleep(stay).await;
        ground.leave();
        ground.ours.fetch_add(1, Ordering::SeqCst);
        guard.release().await.expect("still held");
    }
}

/// Starts a client that takes the lock by `SET NX`, and tries at intervals of `poll`. Returns the
/// number of times that the client got the lock, and its longest wait for the lock.
fn client(
    server: &Server,
    poll: Duration,
    stay: Duration,
    ground: &Arc<Ground>,
) -> JoinHandle<(usize, Duration)> {
    let (probe, ground) = (server.probe(), Arc::clone(ground));
    std::thread::spawn(move || {
        let (mut sections, mut longest, mut last) = (0, Duration::ZERO, Instant::now());
        while sections < ENOUGH && last.elapsed() < LONG {
            if probe.set_nx("lock:k", "another client", TTL) {
                ground.enter();
                longest = longest.max(last.elapsed());
                std::thread::sleep(stay);
                ground.leave();
                assert!(probe.delete_if("lock:k", "another client"));
                (sections, last) = (sections + 1, Instant::now());
            }
            std::thread::sleep(poll);
        }
        (sections, longest)
    })
}

/// Keeps `k` busy with `tasks` tasks of each pool, beside two clients without a queue. The slower
/// client tries every 250 ms. Leasehold promises the key only to clients that try at least this
/// often.
async fn beside(server: &Server, pools: Vec<LockPool>, tasks: usize) {
    let ground = Arc::<Ground>::default();
    let mut calls = JoinSet::new();
    for pool in pools {
        for _ in 0..tasks {
            let stay = Duration::from_millis(3);
            calls.spawn(keep_busy(pool.clone(), stay, Arc::clone(&ground)));
        }
    }
    let busy = || ground.ours.load(Ordering::SeqCst) > 20;
    wait::until_async("all are busy", LONG, busy).await;
    let clients = [(100, 2), (250, 20)].map(|(poll, stay)| {
        let [poll, stay] = [poll, stay].map(Duration::from_millis);
        client(server, poll, stay, &ground)
    });
    let got = tokio::task::spawn_blocking(|| clients.map(|one| one.join().expect("no panic")));
    let got = got.await.expect("no panic");
    ground.over.store(true, Ordering::SeqCst);
    while let Some(call) = calls.join_next().await {
        call.expect("no panic");
    }
    println!("{got:?}, ours {:?}", ground.ours);
    assert_eq!(ground.overlaps.load(Ordering::SeqCst), 0);
    for (sections, _) in got {
        assert_eq!(sections, ENOUGH, "starved");
    }
}

async fn connect(server: &Server) -> LockPool {
    wait::connected(LockPool::builder().url(server.url())).await
}

#[tokio::test]
async fn beside_two_processes() {
    let server = Server::start();
    let pools = vec![connect(&server).await, connect(&server).await];
    beside(&server, pools, 1).await;
}

#[tokio::test]
async fn a_client_gets_in_beside_two_processes_of_many_tasks() {
    let server = Server::start();
    let pools = vec![connect(&server).await, connect(&server).await];
    beside(&server, pools, 4).await;
}

#[tokio::test]
async fn a_client_gets_in_beside_one_process_of_many_tasks() {
    let server = Server::start();
    let pools = vec![connect(&server).await];
    beside(&server, pools, 4).await;
}

/// Number of times that processes pass a key on before they leave it free for a pause.
const OFTEN: usize = 4;

/// Fails if one long hold is enough for the key to be left free for clients without a queue.
/// Instead, the release must give the lock to the call that already waits.
#[tokio::test]
async fn a_waiting_call_does_not_pause_after_one_long_section() {
    let server = Server::start();
    let after = Duration::from_millis(50);
    let pool = || {
        let pool = LockPool::builder().url(server.url()).io_timeout(NO_OUTAGE);
        wait::connected(pool.fairness(Fairness::default().make_way_after(after)))
    };
    let (one, other, probe) = (pool().await, pool().await, server.probe());
    let queue = cmd("EXISTS").arg("lock:%leasehold:queue:lock:k").to_owned();
    let mut held = one.lock("k").ttl(TTL).acquire().await.expect("free");
    for next in [&other, &one] {
        let waiting = tokio::spawn(next.lock("k").ttl(TTL).wait(LONG).acquire());
        wait::until_async("it waits", LONG, || probe.run::<u8>(&queue) == 1).await;
        tokio::time::sleep(4 * after).await;
        held.release().await.expect("still held");
        assert!(probe.exists("lock:k"), "it is left free");
        let next = wait::within("the next", LONG, waiting).await;
        held = next.expect("no panic").expect("its turn comes");
    }
    held.release().await.expect("still held");
}

/// Makes calls of one process use `k` one after the other, and then makes another process wait for
/// `k`. The first process passes the key on more often, and uses it for longer, than leasehold
/// requires before a pause. Returns true if the key is free after the last release, or `None` if
/// the machine was too slow.
async fn left_free_by_one_process(server: &Server) -> Option<bool> {
    let after = Duration::from_secs(1);
    let pool = || {
        let pool = LockPool::builder().url(server.url()).io_timeout(NO_OUTAGE);
        wait::connected(pool.fairness(Fairness::default().make_way_after(after)))
    };
    let (one, other, probe) = (pool().await, pool().await, server.probe());
    let began = Instant::now();
    let mut held = one.lock("k").ttl(TTL).acquire().await.expect("free");
    for _ in 0..2 * OFTEN {
        let mut next = Box::pin(one.lock("k").ttl(TTL).wait(LONG).acquire());
        assert!(poll!(next.as_mut()).is_pending(), "it is held");
        held.release().await.expect("still held");
        let next = wait::within("the next", LONG, next).await;
        held = next.expect("its turn comes");
    }
    let is_without_a_break = began.elapsed() < after;
    let waiting = tokio::spawn(other.lock("k").ttl(TTL).wait(LONG).acquire());
    let queue = cmd("EXISTS").arg("lock:%leasehold:queue:lock:k").to_owned();
    wait::until_async("it waits", LONG, || probe.run::<u8>(&queue) == 1).await;
    // Leasehold leaves a key free only after the key was in use for this time.
    tokio::time::sleep(after).await;
    let began = Instant::now();
    held.release().await.expect("still held");
    let is_free = !probe.exists("lock:k");
    let is_in_the_pause = began.elapsed() < PAUSE;
    let next = wait::within("the other process", LONG, waiting).await;
    let next = next.expect("no panic").expect("its turn comes");
    next.release().await.expect("still held");
    (is_without_a_break && is_in_the_pause).then_some(is_free)
}

/// Fails if a process that has used a key for a long time passes it to the next process. The
/// process must leave the key free for clients without a queue.
#[tokio::test]
async fn a_process_leaves_a_key_free_after_long_use() {
    let server = Server::start();
    for _ in 0..10 {
        if let Some(is_free) = left_free_by_one_process(&server).await {
            assert!(is_free, "the next process has it");
            return;
        }
    }
    panic!("the machine was too slow ten times");
}

/// Makes `OFTEN` processes use the key `k` one after the other, so that leasehold then leaves the
/// key free for a pause. One more process waits. It takes the lock after the pause, and keeps it
/// until `leaves` has a permit.
async fn in_a_pause(
    server: &Server,
    leaves: &Arc<Semaphore>,
) -> (LockPool, JoinSet<Result<(), LockError>>) {
    let after = Duration::from_millis(50);
    let pool = || {
        let pool = LockPool::builder().url(server.url()).io_timeout(NO_OUTAGE);
        wait::connected(pool.fairness(Fairness::default().make_way_after(after)))
    };
    let (holder, probe) = (pool().await, server.probe());
    let mut calls = JoinSet::new();
    let held = holder.lock("k").ttl(TTL).acquire().await.expect("free");
    let turns = Arc::<AtomicUsize>::default();
    let mut next = Vec::new();
    for _ in 0..=OFTEN {
        next.push(pool().await);
    }
    for pool in &next {
        let request = pool.lock("k").ttl(TTL).wait(LONG);
        let (turns, leaves) = (Arc::clone(&turns), Arc::clone(leaves));
        calls.spawn(async move {
            let guard = request.acquire().await?;
            tokio::time::sleep(2 * after).await;
            if turns.fetch_add(1, Ordering::SeqCst) == OFTEN {
                let _permit = leaves.acquire().await.expect("it stays open");
            }
            guard.release().await
        });
    }
    let queue = cmd("STRLEN").arg("lock:%leasehold:queue:lock:k").to_owned();
    let all_wait = || probe.run::<usize>(&queue) == (OFTEN + 1) * 46;
    wait::until_async("all wait", LONG, all_wait).await;
    held.release().await.expect("still held");
    // The processes use the key one after the other, for longer than the time after which a key
    // must be left free.
    for _ in 0..OFTEN {
        let one = wait::within("the next", LONG, calls.join_next()).await;
        one.expect("there is one").expect("no panic").expect("held");
    }
    (holder, calls)
}

/// Fails if a single attempt takes a key in a pause, or gets a `retry_after` longer than the pause.
/// In a pause, the key is left free for clients without a queue.
#[tokio::test]
async fn a_single_try_in_a_pause_is_refused() {
    let server = Server::start();
    let leaves = Arc::new(Semaphore::new(0));
    let (pool, mut calls) = in_a_pause(&server, &leaves).await;
    let probe = server.probe();
    let ours = pool.lock("k").ttl(TTL).acquire().await;
    let readers = pool.lock("k").ttl(TTL).shared().acquire().await;
    let both = pool.lock_all(["k", "other"]).ttl(TTL).acquire().await;
    let free = probe.set_nx("lock:k", "another client", TTL);
    for refused in [ours, readers, both] {
        // If the machine was delayed for longer than the pause, the next process may already have
        // the lock.
        let refused = refused.expect_err("it is left free, or the next has it");
        let retry_after = refused.retry_after().expect("it has a retry_after");
        assert!(!free || retry_after <= PAUSE + Duration::from_millis(10));
    }
    if free {
        assert!(probe.delete_if("lock:k", "another client"));
    }
    leaves.add_permits(1);
    let last = wait::within("the last", LONG, calls.join_next()).await;
    last.expect("there is one")
        .expect("no panic")
        .expect("held");
}

/// Fails if `make_way_after` accepts an invalid value, or refuses a valid value.
#[tokio::test]
async fn make_way_after_accepts_only_valid_values() {
    let with = |after| {
        let pool = LockPool::builder().url("memory://");
        LockPoolBuilder::connect(pool.fairness(Fairness::default().make_way_after(after)))
    };
    for sound in [Duration::ZERO, Duration::from_millis(10), LONG] {
        with(sound).await.expect("it is taken");
    }
    for unsound in [Duration::from_nanos(1), 25 * 60 * LONG] {
        let refused = with(unsound).await.expect_err("it is refused");
        assert!(refused.to_string().contains("make_way_after"), "{refused}");
    }
}
