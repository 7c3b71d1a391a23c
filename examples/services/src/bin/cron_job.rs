//! A job that cron starts on every machine, but that only one machine runs.
//!
//! ```text
//! 0 3-8 * * *  LEASEHOLD_URL=redis://locks/ cron_job "$(date +\%F)"
//! ```
//!
//! The program needs the crates `leasehold`, `thiserror` and `tokio`.

use std::process::ExitCode;
use std::time::Duration;

use leasehold::{LockError, distributed_lock};
use leasehold_services::payments;

const CUSTOMERS: [&str; 3] = ["ada", "grace", "edsger"];

/// Charges all customers for a day.
///
/// The key contains the day, so a late run of yesterday's job does not block today's. After
/// success, `cooldown` keeps the lock for 12 hours. So a machine with a slow clock, or a later
/// start on the same day, does not run the job again. After an error, the next start runs the job
/// again. After a crash, the lock is free when its ttl of five seconds has ended, and the next
/// start runs the job again. The provider then recognizes the customers that it has already
/// charged.
#[distributed_lock(
    key = "job:charge:<day>",
    ttl = "5s",
    watchdog,
    max_hold = "1h",
    cooldown = "12h",
    guard = lock
)]
async fn charge_all(day: &str) -> Result<usize, JobError> {
    for customer in CUSTOMERS {
        lock.check()?; // before each step that cannot be taken back
        payments::charge(&format!("{customer}:{day}")).await?;
    }
    Ok(CUSTOMERS.len())
}

#[derive(Debug, thiserror::Error)]
enum JobError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("the payment provider: {0}")]
    Payment(#[from] std::io::Error),
}

/// Runs the job, unless another machine runs it or has run it. A skipped run also counts as a
/// success, so that the exit status reports only real failures.
async fn run(day: &str) -> Result<String, JobError> {
    leasehold::init_from_env().await?;
    match charge_all(day).await {
        Ok(charged) => Ok(format!("{day}: charged {charged} customers")),
        Err(JobError::Lock(error)) if error.is_contention() => {
            Ok(format!("{day}: skipped, another machine has the job"))
        }
        Err(error) => Err(error),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let Some(day) = std::env::args().nth(1) else {
        eprintln!("usage: cron_job DAY");
        return ExitCode::from(2);
    };
    let ran = run(&day).await;
    leasehold::shutdown(Duration::from_secs(5)).await;
    match ran {
        Ok(outcome) => {
            println!("{outcome}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{day}: {error}");
            ExitCode::FAILURE
        }
    }
}
