//! A web request queues a job, and a worker in another process does the job. The order is locked
//! from the click until the job is done.
//!
//! ```sh
//! export LEASEHOLD_URL=redis://127.0.0.1/
//! cargo run -p leasehold-services --bin queued_job -- serve
//! cargo run -p leasehold-services --bin queued_job -- work one    # each worker with a name of its own
//! curl -i -X POST http://127.0.0.1:3000/orders/42
//! curl -i http://127.0.0.1:3000/orders/42
//! ```
//!
//! The queue is a stream in the same Redis, with a group of workers. The example needs Redis 6.2,
//! `axum`, `leasehold` with the features `axum` and `serde`, `redis` with `streams`, `serde`,
//! `serde_json`, `thiserror` and `tokio`.

mod handler;
mod orders;
mod queue;
mod worker;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use leasehold::Handover;
use serde::{Deserialize, Serialize};

/// The ttl of an order's lock. The lock expires after this time if its process dies, or if no
/// worker receives the job. A worker renews the lock while the job runs.
const TTL: Duration = Duration::from_secs(5);

/// A job on the queue.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    order: String,
    /// The order's lock, which the worker adopts.
    lock: Handover,
}

async fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let url = std::env::var("LEASEHOLD_URL")?;
    leasehold::init(&url).await?; // a service without its locks does not start
    let redis = redis::Client::open(url)?;
    match arguments {
        [role] if role == "serve" => handler::serve(&redis).await?,
        [role, name] if role == "work" => worker::work(&redis, name).await?,
        _ => return Err("usage: queued_job serve | queued_job work NAME".into()),
    }
    leasehold::shutdown(TTL).await;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
