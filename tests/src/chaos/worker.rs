//! A worker process, which runs a [`Job`] until the job is done, or the parent ends or kills the
//! process.

use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold::__test::now;
use leasehold::{Fairness, LockPool};
use tokio::task::JoinSet;

use super::calls;
use super::errand::{Desk, Errand};
use super::gauge;
use super::job::{Form, Job, Lane, Work};
use super::ledger::Ledger;
use super::orders::Orders;
use super::shop::Shop;
use super::telemetry;
use crate::oracle::{History, Note};
use crate::random::Random;
use crate::wait;

/// Time limit for the process to end after its standard input was closed by the parent. Also the
/// time limit for the wait at a gate (`wait_at`).
const LAST_CALL: Duration = Duration::from_secs(20);

static ENDING: AtomicBool = AtomicBool::new(false);

/// Runs the job in `argument`, as the `main` of a worker process. `heap` returns the number of
/// allocated bytes.
///
/// # Panics
///
/// Panics if the argument is not a job, or if the store accepts no connection for half a minute.
pub fn main(argument: &str, heap: fn() -> usize) {
    let job: Job = serde_json::from_str(argument).expect("a job as JSON");
    if let Some(file) = &job.gauge {
        gauge::record(file.clone(), heap);
    }
    if let Some(telemetry) = job.telemetry {
        telemetry::install(telemetry, History::open(&job.history));
    }
    std::thread::spawn(listen);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(job.threads).enable_all();
    if job.idle {
        runtime.on_thread_start(idle);
    }
    let runtime = runtime.build().expect("a runtime starts");
    runtime.block_on(run(job));
}

/// Gives the current thread the lowest priority, so that other threads get nearly all the time of a
/// busy processor. The main thread keeps its priority, because the threads of the pools inherit the
/// main thread's priority.
fn idle() {
    rustix::process::nice(19).expect("each thread may be nicer");
}

/// Waits for the end of standard input, and then lets the calls end. The parent closes the pipe to
/// request the end of this process. The pipe is also closed when the parent ends.
fn listen() {
    for _ in std::io::stdin().lock().lines().map_while(Result::ok) {}
    ENDING.store(true, Ordering::Relaxed);
    std::thread::sleep(LAST_CALL);
    std::process::exit(3);
}

async fn run(job: Job) {
    let desk = Arc::new(Desk {
        history: History::open(&job.history),
        ledger: Ledger::new(&job.ledger),
        shop: shop(&job),
        orders: orders(&job),
    });
    let mut random = Random::new(job.seed);
    let mut tasks = JoinSet::new();
    let mut pools = Vec::new();
    for lane in &job.lanes {
        let shared = pools.first().filter(|_| job.one_pool).cloned();
        pools.push(match shared {
            Some(pool) => pool,
            None => connect(&job, lane).await,
        });
    }
    if let Some(gate) = &job.gate {
        wait_at(gate).await;
    }
    telemetry::begin();
    for (lane, pool) in job.lanes.iter().zip(&pools) {
        for number in 0..lane.copies {
            let copy = Copy {
                number,
                desk: Arc::clone(&desk),
                pool: pool.clone(),
                lane: lane.clone(),
                random: random.fork(),
            };
            tasks.spawn(copy.run());
        }
    }
    while tasks.join_next().await.is_some() {}
    for pool in pools {
        pool.shutdown(Duration::from_secs(5)).await;
    }
}

/// Creates the `ready` file and waits for the `go` file. Meanwhile the parent can change the
/// network, after this process has connected and before its first call.
async fn wait_at(gate: &Path) {
    std::fs::write(gate.with_extension("ready"), "").expect("the gate's folder is writable");
    let go = gate.with_extension("go");
    wait::until_async("the gate opens", LAST_CALL, || go.exists()).await;
}

/// Connects a pool. Tries again if the network fails at the start of this process.
async fn connect(job: &Job, lane: &Lane) -> LockPool {
    let builder = LockPool::builder()
        .url(&job.url)
        .io_timeout(Duration::from_millis(job.io_timeout_ms))
        .wait(Duration::from_millis(lane.wait_ms));
    let builder = match job.make_way_ms {
        Some(after) => {
            let after = Duration::from_millis(after);
            builder.fairness(Fairness::default().make_way_after(after))
        }
        None => builder,
    };
    wait::connected(builder).await
}

/// Opens the shop, if the job sells anything.
fn shop(job: &Job) -> Option<Shop> {
    job.lanes.iter().find_map(|lane| match lane.work {
        Work::Sell { checked } => Some(Shop::open(&job.ledger, checked)),
        _ => None,
    })
}

/// Opens the table of orders, if the job makes any.
fn orders(job: &Job) -> Option<Orders> {
    let makes = |lane: &Lane| matches!(lane.work, Work::Order { .. });
    let made = job.lanes.iter().any(makes);
    made.then(|| Orders::open(&job.ledger))
}

/// One task of a lane (a group of calls).
struct Copy {
    number: u32,
    desk: Arc<Desk>,
    pool: LockPool,
    lane: Lane,
    random: Random,
}

impl Copy {
    async fn run(mut self) {
        let mut made = 0;
        while !ENDING.load(Ordering::Relaxed) && (self.lane.times == 0 || made < self.lane.times) {
            self.call().await;
            made += 1;
        }
    }

    async fn call(&mut self) {
        let keys = self.keys();
        let lane = &self.lane;
        let block = one_in(&mut self.random, lane.block_one_in)
            .then(|| self.random.duration(Duration::from_millis(30)));
        if block.is_some() {
            self.fault("user worker blocked");
        }
        let print = match lane.form {
            Form::Replayed { requests, .. } => 1 + self.random.below(requests),
            _ => 0,
        };
        let errand = Errand {
            desk: Arc::clone(&self.desk),
            pool: self.pool.clone(),
            keys,
            ttl: Duration::from_millis(lane.ttl_ms),
            mode: lane.mode,
            form: lane.form,
            work: lane.work,
            fails: lane.fails,
            block,
            asked: now(),
            began: Arc::new(AtomicU64::new(0)),
            within: None,
            print,
        };
        let call = calls::run(errand, lane.watchdog, Duration::from_millis(lane.wait_ms));
        if one_in(&mut self.random, lane.drop_one_in) {
            let patience = self.random.duration(Duration::from_millis(20));
            if tokio::time::timeout(patience, call).await.is_err() {
                self.fault("future dropped");
            }
        } else {
            call.await;
        }
    }

    /// Chooses the key of a call, or its two keys.
    fn keys(&mut self) -> Vec<String> {
        let keys = &self.lane.keys;
        let count = u64::try_from(keys.len()).unwrap_or(1);
        let first = if self.lane.in_turn {
            u64::from(self.number) % count
        } else {
            self.random.below(count)
        };
        let mut places = vec![first];
        if self.lane.form == Form::Pair {
            let step = 1 + self.random.below(count - 1);
            places.push((first + step) % count);
        }
        let places = places.into_iter().map(usize::try_from);
        places
            .map(|place| keys[place.unwrap_or(0)].clone())
            .collect()
    }

    fn fault(&self, kind: &str) {
        self.desk.history.note(&Note::Fault {
            kind: kind.to_owned(),
            at: now(),
        });
    }
}

fn one_in(random: &mut Random, count: u64) -> bool {
    count > 0 && random.below(count) == 0
}
