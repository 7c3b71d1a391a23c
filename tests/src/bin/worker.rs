//! A process that runs annotated functions, so that tests can stop and kill a real holder.
//!
//! Usage: `worker '<job as JSON>'`. [`leasehold_tests::worker`] describes the job.

use std::future::poll_fn;
use std::io::BufRead;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold::{LockError, LockHandle, LockPool, distributed_lock};
use leasehold_tests::clock;
use leasehold_tests::random::Random;
use leasehold_tests::transfer::{ACCOUNTS, Bank};
use leasehold_tests::variant;
use leasehold_tests::worker::{Event, Job, Scenario};
use tokio::sync::Notify;
use tokio::task::JoinSet;

static JOB: OnceLock<Job> = OnceLock::new();

/// Time at which the current poll of the annotated call began, on the clock of `clock::now`. This
/// is before the library checks the lease's deadline and polls the body.
static BEGAN: AtomicU64 = AtomicU64::new(0);

/// Interval at which a body that holds its lock reports that it runs.
const TICK: Duration = Duration::from_millis(2);

fn job() -> &'static Job {
    JOB.get().expect("the job is set first")
}

fn ttl() -> Duration {
    Duration::from_millis(job().ttl_ms)
}

fn main() {
    let argument = std::env::args().nth(1).expect("one argument: the job");
    JOB.set(serde_json::from_str(&argument).expect("a job as JSON"))
        .expect("set once");
    let leave = Arc::new(Notify::new());
    std::thread::spawn({
        let leave = Arc::clone(&leave);
        move || listen(&leave)
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts");
    match runtime.block_on(run(&leave)) {
        Ok(()) => emit(&Event::Done),
        Err(error) => emit(&Event::Failed {
            kind: variant::of(&error).to_owned(),
            text: error.to_string(),
        }),
    }
}

/// Each line of standard input lets one body return or ends the repetitions. The input ends when
/// the test process ends, and this process then exits.
fn listen(leave: &Notify) {
    for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
        leave.notify_one();
    }
    std::process::exit(3);
}

async fn run(leave: &Notify) -> Result<(), LockError> {
    if matches!(job().scenario, Scenario::InitFromEnv) {
        leasehold::init_from_env().await?;
        return show_the_installed_pool().await;
    }
    let wait = Duration::from_millis(job().wait_ms);
    let pool = LockPool::builder().url(&job().url).wait(wait);
    pool.connect().await?.install()?;
    emit(&Event::Ready);
    let key = &job().key;
    match &job().scenario {
        Scenario::Hold if job().watchdog => stamped(hold_renewed(key, leave)).await,
        Scenario::Hold => stamped(hold(key, leave)).await,
        Scenario::Lead => {
            let request = leasehold::pool()?.lock(key).ttl(ttl());
            let stay = |lock: LockHandle| async move { stay(&lock, leave).await };
            request.lead(stay).await
        }
        Scenario::Count {
            file,
            times,
            pause_us,
        } => {
            let (pause, mut counted) = (Duration::from_micros(*pause_us), 0);
            while times.is_none_or(|times| counted < times) && !may_leave(leave).await {
                count(key, file, pause).await?;
                counted += 1;
            }
            Ok(())
        }
        Scenario::Busy { tasks, stay_us } => {
            let stay = Duration::from_micros(*stay_us);
            let busy = || tokio::spawn(keep_busy(key, stay));
            let busy: Vec<_> = (0..*tasks).map(|_| busy()).collect();
            for task in busy {
                task.await.expect("no panic")?;
            }
            Ok(())
        }
        Scenario::Transfer { tasks, moves, seed } => move_money(*tasks, *moves, *seed).await,
        Scenario::InitFromEnv => Ok(()),
    }
}

/// Takes a lock of the installed pool. If calls of this pool wait by default, the lock stays taken
/// for a minute, where the test can find it.
async fn show_the_installed_pool() -> Result<(), LockError> {
    let minute = Duration::from_secs(60);
    let lock = leasehold::pool()?
        .lock(format!("env-{}", std::process::id()))
        .ttl(minute);
    let guard = lock.clone().acquire().await?;
    match tokio::time::timeout(Duration::from_millis(200), lock.acquire()).await {
        Err(_waiting) => guard.release_after(minute).await,
        Ok(_refused) => guard.release().await,
    }
}

async fn move_money(tasks: u32, moves: u64, seed: u64) -> Result<(), LockError> {
    let bank = Arc::new(Bank::open(&job().url));
    let mut all = JoinSet::new();
    for task in 0..tasks {
        let (bank, mut random) = (Arc::clone(&bank), Random::new(seed + u64::from(task)));
        all.spawn(async move {
            while bank.moves() < moves {
                let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
                let amount = i64::try_from(random.below(10)).expect("below ten");
                transfer(&bank, from, to, amount).await?;
            }
            Ok(())
        });
    }
    while let Some(task) = all.join_next().await {
        task.expect("no panic")?;
    }
    Ok(())
}

#[distributed_lock(key = ["account:<from>", "account:<to>"], ttl = ttl(), watchdog)]
async fn transfer(bank: &Bank, from: u64, to: u64, amount: i64) -> Result<(), LockError> {
    let before = bank.balances(from, to);
    tokio::time::sleep(Duration::from_millis(1)).await;
    bank.move_from(&before, amount);
    Ok(())
}

async fn keep_busy(key: &str, stay: Duration) -> Result<(), LockError> {
    loop {
        brief(key, stay).await?;
    }
}

#[distributed_lock(key = "<key>", ttl = ttl())]
async fn brief(key: &str, stay: Duration) -> Result<(), LockError> {
    tokio::time::sleep(stay).await;
    Ok(())
}

#[distributed_lock(key = "<key>", ttl = ttl(), guard = lock)]
async fn hold(key: &str, leave: &Notify) -> Result<(), LockError> {
    stay(&lock, leave).await;
    Ok(())
}

#[distributed_lock(key = "<key>", ttl = ttl(), watchdog, guard = lock)]
async fn hold_renewed(key: &str, leave: &Notify) -> Result<(), LockError> {
    stay(&lock, leave).await;
    Ok(())
}

/// Stores the start of each poll of `future` in `BEGAN`.
async fn stamped<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        BEGAN.store(clock::now(), Ordering::Relaxed);
        future.as_mut().poll(context)
    })
    .await
}

/// True if a line of standard input has arrived.
async fn may_leave(leave: &Notify) -> bool {
    tokio::select! {
        biased;
        () = leave.notified() => true,
        () = std::future::ready(()) => false,
    }
}

async fn stay(lock: &LockHandle, leave: &Notify) {
    let _section = Section::enter(lock);
    loop {
        emit(&Event::Poll {
            began: BEGAN.load(Ordering::Relaxed),
            at: clock::now(),
            deadline: clock::in_future(lock.remaining()),
        });
        tokio::select! {
            () = leave.notified() => return,
            () = tokio::time::sleep(TICK) => {}
        }
    }
}

#[distributed_lock(key = "<key>", ttl = ttl(), watchdog, guard = lock)]
async fn count(key: &str, file: &str, pause: Duration) -> Result<(), LockError> {
    let _section = Section::enter(&lock);
    let number = std::fs::read_to_string(file).expect("the counter's file");
    let number: u64 = number.trim().parse().expect("the counter is a number");
    tokio::time::sleep(pause).await;
    std::fs::write(file, (number + 1).to_string()).expect("the counter's file");
    Ok(())
}

/// A running body. Reports the start of the body, and on drop its end: the body has returned or was
/// dropped.
struct Section;

impl Section {
    fn enter(lock: &LockHandle) -> Self {
        let at = clock::now();
        emit(&Event::Enter {
            at,
            fence: lock.fence().map(u64::from),
            deadline: clock::in_future(lock.remaining()),
        });
        Self
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        emit(&Event::Leave { at: clock::now() });
    }
}

fn emit(event: &Event) {
    println!(
        "{}",
        serde_json::to_string(event).expect("an event is JSON")
    );
}
