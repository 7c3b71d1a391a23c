//! A flash sale: many buyers, few items, and a stock that each buyer reads and later writes back.
//!
//! ```sh
//! cargo run --release --example flash_sale
//! cargo run --release --example flash_sale -- --store redis://127.0.0.1/ --processes 4
//! ```
//!
//! The sale runs twice: first without a lock, then with `#[distributed_lock]`. Exit code 1 means
//! that the locked sale was not exact.

mod args;
mod crowd;
mod drawing;
mod processes;
mod progress;
mod purchase;
mod report;
mod stock;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use leasehold::{Fairness, LockPool};

use args::{Args, Mode};
use crowd::Tally;
use progress::Progress;
use purchase::SaleError;
use report::Row;
use stock::Stock;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::read()).await {
        Ok(exact) => ExitCode::from(u8::from(!exact)),
        Err(error) => {
            eprintln!("flash_sale: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(args: Args) -> Result<bool, SaleError> {
    if args.worker.is_some() {
        return processes::work(&args).await.map(|()| true);
    }
    report::header(&args);
    let without = sale(&args, Mode::WithoutLock).await?;
    let with = sale(&args, Mode::WithLock).await?;
    report::table(&args, &without, &with);
    Ok(with.is_exact(&args))
}

/// Runs one sale from a full stock.
async fn sale(args: &Args, mode: Mode) -> Result<Row, SaleError> {
    let stock = Stock::open(&args.store, &args.run).await?;
    stock.write(args.stock).await?;
    let progress = Progress::new(mode, args.buyers);
    let started = Instant::now();
    let tally = if args.processes > 1 {
        processes::run(args, mode, &progress).await?
    } else {
        in_this_process(args, mode, &stock, &progress).await?
    };
    let took = started.elapsed();
    progress.clear();
    let left = stock.read().await?;
    stock.remove().await?;
    Ok(Row {
        mode,
        tally,
        left,
        took,
    })
}

/// Runs the sale with all buyers in this process.
async fn in_this_process(
    args: &Args,
    mode: Mode,
    stock: &Stock,
    progress: &Progress,
) -> Result<Tally, SaleError> {
    let pool = open_pool(args, mode).await?;
    let tally = crowd::buy_all(args, mode, stock, |done| progress.set(done)).await;
    if let Some(pool) = pool {
        pool.shutdown(Duration::from_secs(5)).await;
    }
    tally
}

/// Connects and installs the pool for `#[distributed_lock]`. The sale without a lock needs no pool.
async fn open_pool(args: &Args, mode: Mode) -> Result<Option<LockPool>, SaleError> {
    if mode == Mode::WithoutLock {
        return Ok(None);
    }
    let buyers = args.buyers.try_into().unwrap_or(usize::MAX);
    let pool = LockPool::builder()
        .url(&args.store)
        .fairness(Fairness::default().max_waiters(buyers))
        .connect()
        .await?;
    pool.install()?;
    Ok(Some(pool))
}
