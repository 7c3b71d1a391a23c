//! A job that every instance of a service starts on the same schedule, but only one may run.
//!
//! `watchdog` renews the lease for as long as the job takes. So `ttl` can stay short, and a crashed
//! instance delays the next run only briefly. `max_hold` ends a job that hangs. The other instances
//! skip this run, which is not an error. `min_hold` keeps the lock for a while, so that an instance
//! with a late clock also skips the run.
//!
//! ```sh
//! cargo run --example background_job
//! ```

use std::error::Error;
use std::time::Duration;

use leasehold::{LockError, distributed_lock};

#[distributed_lock(
    key = "job:invoices:<day>",
    ttl = "500ms",
    watchdog,
    max_hold = "10m",
    min_hold = "3s",
    guard = lock
)]
async fn send_invoices(instance: u32, day: &str) -> Result<u32, LockError> {
    let mut sent = 0;
    for customer in ["ada", "grace", "edsger"] {
        lock.check()?; // before every step that cannot be taken back
        tokio::time::sleep(Duration::from_millis(400)).await;
        println!("instance {instance}: invoice for {customer} on {day}");
        sent += 1;
    }
    Ok(sent)
}

async fn scheduled_run(instance: u32) -> Result<(), LockError> {
    match send_invoices(instance, "2030-01-31").await {
        Ok(sent) => println!("instance {instance}: {sent} invoices sent"),
        Err(error) if error.is_contention() => println!("instance {instance}: skipped, {error}"),
        Err(error) => return Err(error),
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    leasehold::init("memory://").await?; // in production: "redis://127.0.0.1/"
    tokio::try_join!(scheduled_run(1), scheduled_run(2), scheduled_run(3))?;
    // This instance of the service starts the job late, because its clock is slow. The job is
    // already done.
    scheduled_run(4).await?;
    leasehold::shutdown(Duration::from_secs(5)).await;
    Ok(())
}
