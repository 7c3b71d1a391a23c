//! Requirement 36: a transaction that has called `leasehold.verify` for its lock is committed
//! before any other call gets the lock, or not at all. The result is checked with SQL alone.
//!
//! Many tasks share two pools, which stand for two processes of a service. Most calls are dropped
//! at a random moment, many of them during their `COMMIT`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold::{Fence, LockPool};
use tokio::task::JoinSet;
use tokio_postgres::IsolationLevel;

use super::bank::{Bank, Deal, KEYS};
use super::ground::{Ground, Requirement, Size, connect, runtime};
use super::sheet::Sheet;
use super::store::Store;
use crate::postgres::Postgres;
use crate::proxy::{After, Mode};
use crate::random::Random;
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 36,
    what: "a verified transaction commits before the next holder comes, or not at all",
    stores: &[Store::Postgres],
    run,
};

const WANTED: u64 = 10_000;
/// Number of tasks of the first pool and of the second pool.
const TASKS: [u64; 2] = [10, 3];
/// A ttl so short that the lease ends during some of the transactions.
const SHORT: Duration = Duration::from_millis(300);
const TTL: Duration = Duration::from_secs(4);
/// The longest pause between the read and the write of a transaction.
const PAUSE: Duration = Duration::from_millis(80);
/// The longest time until a call is dropped.
const HURRY: Duration = Duration::from_millis(150);
const SMALL: Duration = Duration::from_secs(5);
/// The least number of calls of a run. A slow run continues for up to `LONG` to reach it.
const FEWEST: u64 = 250;
const LONG: Duration = Duration::from_secs(30);

fn run(ground: &Ground, sheet: &Sheet) {
    let server = Postgres::start_with(&["fsync=off", "max_prepared_transactions=64"]);
    let bank = Arc::new(Bank::open(&server));
    let length = match ground.size {
        Size::Full => ground.time,
        Size::Small => SMALL,
    };
    let until = Instant::now() + length;
    let mut random = ground.random(36);
    let runtime = runtime(4);
    let (dropped, calls) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let strikes = runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for tasks_of_pool in TASKS {
            let pool = connect(&bank.url()).await;
            for _ in 0..tasks_of_pool {
                let caller = Caller {
                    bank: Arc::clone(&bank),
                    pool: pool.clone(),
                    random: random.fork(),
                    calls: Arc::clone(&calls),
                    dropped: Arc::clone(&dropped),
                };
                tasks.spawn(caller.run(until));
            }
        }
        let strikes = strike(&bank, &mut random, until).await;
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no caller panics");
        }
        strikes
    });
    // A transaction in a spawned task continues after its call is dropped. So the run waits until
    // no task uses `bank`.
    wait::until("all tasks have ended", LONG, || {
        Arc::strong_count(&bank) == 1
    });
    bank.finish();
    let calls = calls.load(Ordering::Relaxed);
    sheet.sections(calls);
    sheet.faults("call dropped", dropped.load(Ordering::Relaxed));
    sheet.faults("network of the committing clients", strikes);
    judge(&bank, sheet);
}

fn judge(bank: &Bank, sheet: &Sheet) {
    let (committed, lost, wrong) = (bank.committed(), bank.lost(), bank.wrong());
    let counts = &bank.counts;
    sheet.reached("committed", committed, WANTED);
    let [refused, unanswered, prepared] = [&counts.refused, &counts.unanswered, &counts.prepared]
        .map(|count| count.load(Ordering::Relaxed));
    sheet.remark(format!(
        "{refused} refused, {unanswered} without an answer, {prepared} in two phases"
    ));
    sheet.check(refused > 0 && unanswered > 0 && prepared > 0, || {
        format!("not all happened: {counts:?}")
    });
    if lost > 0 {
        sheet.lost_updates(lost, format!("{lost} of {committed} updates were lost"));
    }
    sheet.check(lost > 0 || wrong == 0, || {
        format!("{wrong} counters are not what was committed")
    });
}

struct Caller {
    bank: Arc<Bank>,
    pool: LockPool,
    random: Random,
    calls: Arc<AtomicU64>,
    dropped: Arc<AtomicU64>,
}

impl Caller {
    async fn run(mut self, until: Instant) {
        while Instant::now() < until || self.is_short(until) {
            let (is_dropped, hurry) = (self.random.below(10) < 6, self.random.duration(HURRY));
            let limit = if is_dropped { hurry } else { LONG };
            let ended = tokio::time::timeout(limit, self.call()).await;
            self.dropped
                .fetch_add(u64::from(ended.is_err()), Ordering::Relaxed);
        }
    }

    /// True if the run must continue after `until`, because it has made too few calls on a busy
    /// machine.
    fn is_short(&self, until: Instant) -> bool {
        let enough = FEWEST <= self.calls.load(Ordering::Relaxed);
        !enough && Instant::now() < until + LONG
    }

    /// Makes one call. The call releases its lock even if it is dropped.
    async fn call(&mut self) {
        let random = &mut self.random;
        let key = random.below(KEYS);
        let request = self.pool.lock(format!("counter:{key}")).wait(TTL);
        let request = match random.below(3) {
            0 => request.ttl(SHORT),
            1 => request.ttl(TTL),
            _ => request.ttl(TTL).watchdog(),
        };
        // After an error there is no transaction: the lock was not free in time, or the lease had
        // ended before the store answered.
        let Ok(guard) = request.acquire().await else {
            return;
        };
        self.calls.fetch_add(1, Ordering::Relaxed);
        let isolation = match random.below(4) {
            0 => IsolationLevel::RepeatableRead,
            1 => IsolationLevel::Serializable,
            _ => IsolationLevel::ReadCommitted,
        };
        let deal = Deal {
            key: i64::try_from(key).expect("a small number"),
            lock: guard.full_key().to_owned(),
            fence: guard
                .fence()
                .map(Fence::as_i64)
                .expect("PostgreSQL gives fences"),
            isolation,
            verifies_first: random.below(2) == 0,
            pause: random.duration(PAUSE),
        };
        let bank = Arc::clone(&self.bank);
        match random.below(4) {
            0 => bank.prepare(deal).await,
            1 => bank.commit(deal).await,
            _ => tokio::spawn(bank.commit(deal)).await.expect("no panic"),
        }
        drop(guard);
    }
}

/// Loses answers to commits, delays requests, and makes requests arrive after their client has
/// closed the connection. Returns the number of these faults.
async fn strike(bank: &Bank, random: &mut Random, until: Instant) -> u64 {
    let mut strikes = 0;
    let pause = Duration::from_millis(100);
    while Instant::now() < until {
        tokio::time::sleep(random.duration(pause)).await;
        strikes += 1;
        let proxy = &bank.proxy;
        match random.below(4) {
            0 => proxy.lose_replies("COMMIT", 2, After::Cut),
            1 => proxy.lose_replies("COMMIT", 2, After::Silence),
            2 => {
                proxy.set(Mode::Delay {
                    least: Duration::ZERO,
                    jitter: pause / 3,
                });
                tokio::time::sleep(pause).await;
                proxy.pass();
            }
            _ => {
                proxy.set(Mode::Stall);
                tokio::time::sleep(pause / 2).await;
                proxy.hang_up(pause / 3);
                proxy.pass();
            }
        }
    }
    bank.proxy.pass();
    strikes
}
