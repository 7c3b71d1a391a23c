//! A client of the crate distributed-lock-postgres. The protocol is in benches/peers/README.md.

use std::env;
use std::error::Error;
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use distributed_lock_core::traits::{DistributedLock as _, LockHandle as _, LockProvider as _};
use distributed_lock_postgres::PostgresLockProvider;
use rustix::time::{ClockId, clock_gettime};
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

type Fault = Box<dyn Error + Send + Sync>;

/// Maximum number of reported errors.
const SHOWN: usize = 5;

struct Plan {
    url: String,
    work: String,
    tasks: u32,
    ends_after: Duration,
    section: Duration,
    think: Duration,
    patience: Duration,
    file: String,
}

impl Plan {
    fn read() -> Result<Self, Fault> {
        let arguments: Vec<String> = env::args().skip(1).collect();
        // `_ttl` is not used, because the lock of a session has no ttl.
        let [
            url,
            work,
            tasks,
            _ttl,
            warmup,
            window,
            section,
            think,
            patience,
            file,
        ] = &arguments[..]
        else {
            let given = arguments.len();
            return Err(format!(
                "10 arguments are needed, not {given}; benches/peers/README.md lists them"
            )
            .into());
        };
        let millis = |given: &str| given.parse().map(Duration::from_millis);
        Ok(Self {
            // After a comma, the argument contains the URL of a Redis, which this client does not
            // use.
            url: url.split(',').next().unwrap_or_default().to_owned(),
            work: work.clone(),
            tasks: tasks.parse()?,
            ends_after: millis(warmup)? + millis(window)?,
            section: millis(section)?,
            think: millis(think)?,
            patience: millis(patience)?,
            file: file.clone(),
        })
    }

    fn key(&self, task: u32) -> String {
        match self.work.strip_prefix("key:") {
            Some(name) => name.to_owned(),
            None if self.work == "hot" => "hot".to_owned(),
            None => format!("key{task}"),
        }
    }
}

/// One section as five numbers, in the order in which the file contains them.
type Record = [u64; 5];

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let plan = Arc::new(Plan::read()?);
    let locks = Arc::new(connect(&plan).await?);
    println!("ready");
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let start: u64 = line.trim().trim_start_matches("go ").parse()?;
    sleep(Duration::from_nanos(start.saturating_sub(now()))).await;
    let end = start + nanos(plan.ends_after);

    let mut tasks = JoinSet::new();
    for task in 0..plan.tasks {
        let (plan, locks) = (Arc::clone(&plan), Arc::clone(&locks));
        tasks.spawn(async move {
            let mut records = Vec::new();
            let ended = sections(&plan, &locks, task, end, &mut records).await;
            (records, ended)
        });
    }
    let (mut records, mut errors) = (Vec::new(), Vec::new());
    let mut lost = plan.tasks;
    let limit = plan.ends_after + plan.patience + Duration::from_secs(1);
    // Tasks still running after `limit` count as lost.
    let _ = timeout(limit, async {
        while let Some(ended) = tasks.join_next().await {
            let (own, ended) = ended.expect("no task panics");
            records.extend(own);
            match ended {
                Ok(()) => lost -= 1,
                Err(error) => errors.push(error.to_string()),
            }
        }
    })
    .await;
    let stamps = records.iter().flatten();
    fs::write(
        &plan.file,
        stamps
            .flat_map(|stamp| stamp.to_le_bytes())
            .collect::<Vec<u8>>(),
    )?;
    errors.truncate(SHOWN);
    println!("{}", serde_json::json!({ "lost": lost, "errors": errors }));
    Ok(())
}

/// Opens a connection for each task, because a lock occupies its connection until its release.
async fn connect(plan: &Plan) -> Result<PostgresLockProvider, Fault> {
    let pool = PgPoolOptions::new()
        .min_connections(plan.tasks)
        .max_connections(plan.tasks)
        .connect(&plan.url)
        .await?;
    Ok(PostgresLockProvider::builder().pool(pool).build().await?)
}

/// Takes the lock, runs the section and releases the lock, repeatedly until the end.
async fn sections(
    plan: &Plan,
    locks: &PostgresLockProvider,
    task: u32,
    end: u64,
    records: &mut Vec<Record>,
) -> Result<(), Fault> {
    let lock = locks.create_lock(&plan.key(task));
    loop {
        let asked = now();
        if end <= asked {
            return Ok(());
        }
        let held = lock.acquire(Some(plan.patience)).await?;
        let entered = now();
        if !plan.section.is_zero() {
            sleep(plan.section).await;
        }
        let left = now();
        held.release().await?;
        records.push([task.into(), asked, entered, left, now()]);
        if !plan.think.is_zero() {
            sleep(plan.think).await;
        }
    }
}

/// Returns the time on the clock that all processes share.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    nanos(Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    ))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
