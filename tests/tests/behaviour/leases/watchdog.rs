//! Tests that the watchdog keeps a lease while the body runs, and that the body ends before its
//! lease.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::{LockError, LockHandle, LockPool, distributed_lock};
use leasehold_tests::blocked::Blocked;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::probe::Probe;
use leasehold_tests::proxy::{Mode, Proxy};
use leasehold_tests::random::Random;
use leasehold_tests::server::Server;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::worker::{Event, Job, Scenario, Worker};
use leasehold_tests::{clock, wait};
use redis::cmd;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

const LONG: Duration = Duration::from_secs(30);
/// Time limit for a release to take effect. It is less than the ttl of six seconds, so a just
/// renewed lease cannot expire in this time.
const SOON: Duration = Duration::from_secs(3);

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts")
}

async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url).io_timeout(NO_OUTAGE)).await
}

#[distributed_lock(key = "<key>", ttl = "6s", watchdog, guard = lock, pool = pool)]
async fn holds(
    pool: LockPool,
    key: String,
    entered: oneshot::Sender<u64>,
    leave: oneshot::Receiver<()>,
) -> Result<(), LockError> {
    let fence = lock.fence().expect("Redis gives fences");
    entered.send(fence.get()).expect("the test waits for it");
    leave.await.expect("the test is done when");
    lock.check()
}

/// Fails if renewals depend on tasks of the user's runtime, whose workers are all blocked here.
#[test]
fn a_short_lease_is_kept_while_all_workers_are_blocked() {
    let server = Server::start();
    let probe = server.probe().namespace("lock:");
    let runtime = runtime();
    let pool = runtime.block_on(connect(&server.url()));
    let mut held = Vec::new();
    for number in 0..8 {
        let key = format!("kept-{number}");
        let ((entered, fence), (leave, left)) = (oneshot::channel(), oneshot::channel());
        let task = runtime.spawn(holds(pool.clone(), key.clone(), entered, left));
        let fence = runtime.block_on(fence).expect("the body begins");
        let value = probe.get(&key).expect("it is locked");
        assert_eq!(probe.value(&key).expect("it is locked").fence, fence);
        held.push((key, value, leave, task));
    }
    let blocked = Blocked::all(&runtime);
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(8) {
        for (key, value, ..) in &held {
            assert!(!probe.take(key, LONG), "{key} came free");
            assert_eq!(probe.get(key).as_ref(), Some(value), "{key}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(blocked);
    for (key, _, leave, task) in held {
        leave.send(()).expect("the body waits for it");
        let ended = runtime.block_on(task).expect("no panic");
        assert_eq!(ended, Ok(()), "{key}");
        wait::until(&key, SOON, || !probe.exists(&key));
    }
}

/// The times of a body's last poll and drop, and the last deadline that the body has read.
#[derive(Debug, Default)]
struct Trace {
    polled: u64,
    dropped: u64,
    deadline: u64,
}

type SharedTrace = Arc<Mutex<Trace>>;

struct Ends(SharedTrace);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.lock().expect("no panic").dropped = clock::now();
    }
}

fn note(trace: &SharedTrace, lock: &LockHandle) {
    let mut trace = trace.lock().expect("no panic");
    trace.polled = clock::now();
    if lock.check().is_ok() {
        trace.deadline = clock::in_future(lock.remaining());
    }
}

#[distributed_lock(key = "<key>", ttl = "3s", watchdog, guard = lock, pool = pool)]
async fn traced(pool: &LockPool, key: &str, trace: &SharedTrace) -> Result<(), LockError> {
    let _ends = Ends(Arc::clone(trace));
    loop {
        note(trace, &lock);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Injects the fault `mode` while the body runs. Fails if the gate (the check of the deadline
/// before each poll of the body) is missing, or if an unconfirmed renewal extends the deadline.
/// Also fails if the loss is reported only when the store answers again.
async fn is_cancelled(proxy: &Proxy, key: &str, mode: Mode) {
    let pool = connect(&proxy.url()).await;
    let trace = SharedTrace::default();
    let excuse = Excuse::begin();
    let (lost, returned) = {
        let call = async {
            let traced = traced(&pool, key, &trace);
            let ended = wait::within("the loss is reported", LONG, traced).await;
            (ended, clock::now())
        };
        let fault = async {
            // The pool renews the lease every second. So after this sleep there have been three
            // renewals, and the next one is due in half a second.
            tokio::time::sleep(Duration::from_millis(3_500)).await;
            proxy.set(mode);
        };
        tokio::join!(call, fault).0
    };
    assert!(
        matches!(&lost, Err(LockError::Lost { key: lost, .. }) if lost == key),
        "{mode:?}: {lost:?}"
    );
    let trace = trace.lock().expect("no panic");
    // The gate checks the deadline before each poll. After this check, the thread may be suspended
    // before the body reads the clock. So delays of the machine are tolerated.
    let end = trace.deadline + clock::micros(excuse.so_far());
    assert!(
        trace.deadline > 0 && trace.polled < end,
        "{mode:?}: {trace:?}"
    );
    assert!(trace.dropped < end, "{mode:?}: {trace:?}");
    // The caller must be notified by the end of the lease. The tolerance of 100 ms is for a busy
    // machine.
    let late = Duration::from_micros(returned.saturating_sub(end));
    assert!(
        late < Duration::from_millis(100),
        "{mode:?}: reported {late:?} after the lease"
    );
}

#[tokio::test]
async fn a_vanished_store_ends_the_body_in_time() {
    let server = Server::start();
    let modes = [
        Mode::BlackHole,
        Mode::Stall,
        Mode::SwallowReplies,
        Mode::SwallowRequests,
    ];
    let proxies = modes.map(|_| Proxy::start(server.address()));
    let keys = modes.map(|mode| format!("vanishes-{mode:?}"));
    tokio::join!(
        is_cancelled(&proxies[0], &keys[0], modes[0]),
        is_cancelled(&proxies[1], &keys[1], modes[1]),
        is_cancelled(&proxies[2], &keys[2], modes[2]),
        is_cancelled(&proxies[3], &keys[3], modes[3]),
    );
    for proxy in &proxies {
        proxy.pass();
    }
    let probe = server.probe().namespace("lock:");
    for key in &keys {
        wait::until_async(key, LONG, || !probe.exists(key)).await;
    }
}

/// Fails if the signal of the loss depends on tasks of the user's runtime, whose workers are all
/// blocked here.
#[test]
fn a_loss_is_signalled_in_time_while_all_workers_are_blocked() {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let runtime = runtime();
    let pool = runtime.block_on(connect(&proxy.url()));
    let request = pool.lock("signalled").ttl(Duration::from_millis(600));
    let guard = runtime
        .block_on(request.watchdog().acquire())
        .expect("free");
    let blocked = Blocked::all(&runtime);
    proxy.set(Mode::BlackHole);
    let excuse = Excuse::begin();
    let mut deadline = u64::MAX;
    // The guard is checked before the clock is read. So a time after the deadline shows that the
    // guard was valid for too long, or that this thread was delayed.
    while guard.check().is_ok() {
        let late = clock::now().saturating_sub(deadline);
        assert!(
            late <= clock::micros(excuse.so_far()),
            "no signal {late} us after the lease ended"
        );
        deadline = clock::in_future(guard.remaining());
        std::thread::sleep(Duration::from_millis(1));
    }
    let end = deadline.saturating_add(clock::micros(excuse.so_far()));
    assert!(clock::now() < end, "signalled before the lease ended");
    assert_eq!(guard.remaining(), Duration::ZERO);
    drop(blocked);
}

#[distributed_lock(
    key = "<key>", ttl = "3s", watchdog, on_lost = "continue", guard = lock, pool = pool
)]
async fn runs_on(pool: &LockPool, key: &str, fault: impl FnOnce()) -> Result<LockError, LockError> {
    fault();
    lock.lost().await;
    let error = lock.check().expect_err("the lease is lost");
    let lost = clock::now();
    while clock::now() < lost + 700_000 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(error)
}

/// Fails if a body with `on_lost = "continue"` is dropped after the loss of its lease, or is not
/// notified of the loss.
#[tokio::test]
async fn on_lost_continue_notifies_the_running_body() {
    let server = Server::start();
    let probe = server.probe().namespace("lock:");
    let proxy = Proxy::start(server.address());
    let pool = connect(&proxy.url()).await;
    let black_hole = runs_on(&pool, "runs-on", || proxy.set(Mode::BlackHole));
    let direct = connect(&server.url()).await;
    let stolen = runs_on(&direct, "stolen", || probe.steal("stolen", LONG));
    let both = async { tokio::join!(black_hole, stolen) };
    let (black_hole, stolen) = wait::within("both are notified", LONG, both).await;
    for ended in [black_hole, stolen] {
        let reported = ended.expect("the body's own value");
        assert!(matches!(reported, LockError::Lost { .. }), "{reported:?}");
    }
    assert!(probe.untouched("stolen"), "the thief keeps it");
}

#[distributed_lock(key = "<key>", ttl = "6s", watchdog, max_hold = "8s", pool = pool)]
async fn held_too_long(pool: &LockPool, key: &str) -> Result<(), LockError> {
    pending().await
}

/// Fails if `max_hold` is ignored, or if the lease already ends after its first ttl.
#[tokio::test]
async fn a_healthy_lease_ends_after_max_hold() {
    let server = Server::start();
    let pool = connect(&server.url()).await;
    let (started, excuse) = (Instant::now(), Excuse::begin());
    let call = held_too_long(&pool, "too-long");
    let ended = wait::within("it is given up", LONG, call).await;
    let held = started.elapsed();
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
    assert!(
        held > Duration::from_secs(7),
        "renewed until then: {held:?}"
    );
    let most = Duration::from_millis(8_150) + excuse.so_far();
    assert!(held < most, "and no longer: {held:?}");
    let probe = server.probe().namespace("lock:");
    wait::until_async("the key is free", LONG, || !probe.exists("too-long")).await;
}

#[distributed_lock(key = "<key>", ttl = "6s", watchdog = "100ms", pool = pool)]
async fn renewed_often(
    pool: &LockPool,
    key: &str,
    work: impl Future<Output = ()>,
) -> Result<(), LockError> {
    work.await;
    Ok(())
}

/// Fails if the configured renewal interval is ignored, or if a renewal does not set the whole ttl.
#[tokio::test]
async fn the_renewal_interval_can_be_set() {
    let server = Server::start();
    let probe = server.probe().namespace("lock:");
    let pool = connect(&server.url()).await;
    let excuse = Excuse::begin();
    let watch = async {
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            let left = probe.ttl("often").expect("it is locked and expires");
            let least = Duration::from_millis(5_600).saturating_sub(excuse.so_far());
            assert!(left > least, "{left:?} left");
            assert!(left <= Duration::from_secs(6), "{left:?} left");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    renewed_often(&pool, "often", watch)
        .await
        .expect("it is kept");
}

/// Fails if renewals need memory. A full server refuses every command that needs memory, for
/// example SET.
#[tokio::test]
async fn a_full_server_renews_and_releases() {
    let server = Server::start();
    let probe = server.probe().namespace("lock:");
    let pool = connect(&server.url()).await;
    let full = async {
        let mut fill = cmd("CONFIG");
        fill.arg("SET").arg("maxmemory").arg(1);
        probe.run::<()>(&fill);
        assert!(probe.try_run::<()>(cmd("SET").arg("k").arg("v")).is_err());
        tokio::time::sleep(Duration::from_millis(7_500)).await;
    };
    renewed_often(&pool, "full", full)
        .await
        .expect("it is kept");
    wait::until_async("it is released", SOON, || !probe.exists("full")).await;
}

/// Fails if a lease is counted from the reply to its request, instead of from the sending of the
/// request.
#[tokio::test]
async fn a_lease_counts_from_the_sending_of_its_request() {
    const TTL: u64 = 20_000;
    const DRIFT: u64 = TTL / 100 + 2;
    const DELAY: u64 = 300;
    // Upper bound of the time that remains when the call gets its lock. One millisecond is added
    // because the delay is not exact.
    const MOST: Duration = Duration::from_millis(TTL - DRIFT - DELAY + 1);
    let ttl = Duration::from_millis(TTL);
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let pool = connect(&proxy.url()).await;
    let warm = pool.lock("warm").ttl(ttl).acquire().await;
    warm.expect("it is free").release().await.expect("released");
    proxy.set(Mode::DelayReplies(Duration::from_millis(DELAY)));
    for number in 0..5 {
        let request = pool.lock(format!("sent-{number}")).ttl(ttl).wait(ttl);
        let guard = request.acquire().await.expect("late, but granted");
        let left = guard.remaining();
        assert!(left <= MOST && left > MOST / 2, "{left:?} of {MOST:?}");
    }
}

/// Fails if the gate (the check of the deadline before each poll of the body) is missing, or if the
/// gate's clock stands still while the process is stopped.
#[test]
fn a_resumed_process_does_not_continue_its_body() {
    const TTL: Duration = Duration::from_millis(300);
    let server = Server::start();
    let mut random = Random::seeded("stopped processes");
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (server, mut random) = (&server, random.fork());
            scope.spawn(move || {
                for round in 0..5 {
                    let key = format!("stopped-{number}-{round}");
                    stopped(server, &key, TTL, number % 2 == 0, &mut random);
                }
            });
        }
    });
}

/// Returns a worker inside its lock, and the time at which its lease ends. On a busy machine, a
/// short lease may end before its body begins. In this case, another worker is started.
fn entered(job: &Job) -> (Worker, u64) {
    let program = env!("CARGO_BIN_EXE_worker");
    for _ in 0..20 {
        let mut worker = Worker::spawn(program, job);
        let event = worker.wait_for("the body begins, or is too late", LONG, |event| {
            matches!(event, Event::Enter { .. } | Event::Failed { .. })
        });
        match event {
            Event::Enter { deadline, .. } => return (worker, deadline),
            other => eprintln!("again: {other:?}"),
        }
    }
    panic!("no body ever begins");
}

fn stopped(server: &Server, key: &str, ttl: Duration, watchdog: bool, random: &mut Random) {
    let probe = server.probe().namespace("lock:");
    let job = Job {
        url: server.url(),
        key: key.to_owned(),
        ttl_ms: u64::try_from(ttl.as_millis()).expect("a short ttl"),
        wait_ms: 0,
        watchdog,
        scenario: Scenario::Hold,
    };
    let (mut worker, deadline) = entered(&job);
    std::thread::sleep(random.duration(ttl / 2));
    worker.process().pause();
    wait::until("the lease ends", LONG, || probe.take(key, LONG * 6));
    let taken = clock::now();
    worker.process().resume();
    let end = worker.wait_end(LONG);
    assert!(
        matches!(&end, Event::Failed { kind, .. } if kind == "Lost"),
        "{end:?}"
    );
    for event in worker.seen() {
        if let Event::Poll { began, .. } = event {
            assert!(
                *began < taken,
                "polled while another holder is inside: {event:?}"
            );
            assert!(
                watchdog || *began < deadline,
                "polled after {deadline}: {event:?}"
            );
        }
    }
    assert!(probe.untouched(key), "the other holder was touched");
}
