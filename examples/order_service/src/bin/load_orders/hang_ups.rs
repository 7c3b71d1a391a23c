//! Buyers who close their connection during their sale ("hang up"). No sale may be lost or only
//! half made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::args::Args;
use crate::client::{Answers, Client, Failure};
use crate::ledger::Ledger;
use crate::report::Report;

/// Upper bound of the time before a buyer hangs up, in milliseconds.
const PATIENCE: u64 = 200;

/// Maximum time for sales to end after their clients are gone.
const SETTLED: Duration = Duration::from_secs(15);

/// Lets buyers buy and hang up for `args.minutes`, and compares the sales with the stock.
pub(crate) async fn run(client: &Client, ledger: &Ledger, args: &Args) -> Result<Report, Failure> {
    let mut report = Report::default();
    let stock = ledger.stock(&args.order_sku).await?;
    let sold = ledger.sold(&args.order_sku).await?;
    let started = Instant::now();
    let (answers, gone) = buy(client, args).await?;
    report.phase("buys", started.elapsed(), &answers);
    let settled = Instant::now();
    loop {
        let made = ledger.sold(&args.order_sku).await? - sold;
        let taken = stock - ledger.stock(&args.order_sku).await?;
        // A sale whose client is gone may still be under way. So the two numbers are read again
        // until they agree, or until the time limit.
        if made == taken || SETTLED < settled.elapsed() {
            report.expect(
                "items off the stock, of the sales in the table",
                taken,
                made,
            );
            report.note("clients hung up", gone);
            return Ok(report);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

async fn buy(client: &Client, args: &Args) -> Result<(Answers, u64), Failure> {
    let path = Arc::new(format!("/items/{}/buy", args.order_sku));
    let ends = Instant::now() + Duration::from_secs(60 * args.minutes);
    let (count, percent) = (Arc::new(AtomicU64::new(0)), args.hang_up.unwrap_or(0));
    let mut buyers = JoinSet::new();
    for _ in 0..args.parallel * 4 {
        let (client, path, count) = (client.clone(), Arc::clone(&path), Arc::clone(&count));
        buyers.spawn(async move {
            let (mut answers, mut gone) = (Answers::default(), 0);
            while Instant::now() < ends {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let buying = client.post(&path, String::new());
                // The buyers that hang up, and the times after which they do so, are the same in
                // each run and spread evenly.
                let hangs_up = number * 37 % 100 < percent;
                if !hangs_up {
                    answers.add(&buying.await?);
                    continue;
                }
                let patience = Duration::from_millis(number * 7919 % PATIENCE);
                match timeout(patience, buying).await {
                    Ok(answer) => answers.add(&answer?),
                    Err(_) => gone += 1,
                }
            }
            Ok::<_, Failure>((answers, gone))
        });
    }
    let (mut answers, mut gone) = (Answers::default(), 0);
    while let Some(buyer) = buyers.join_next().await {
        let (theirs, left) = buyer??;
        answers.append(theirs);
        gone += left;
    }
    Ok((answers, gone))
}
