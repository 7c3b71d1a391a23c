//! Runs the sale in several processes: this program starts itself again as workers.
//!
//! Parent and worker exchange lines. The worker sends `ready` and waits for `go`. From time to time
//! it sends `done N`, and at the end `tally SOLD SOLD_OUT GAVE_UP`.

use std::cell::Cell;
use std::process::Stdio;

use clap::ValueEnum as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::args::{Args, Mode};
use crate::crowd::Tally;
use crate::progress::Progress;
use crate::purchase::SaleError;
use crate::stock::Stock;

struct Worker {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Divides the buyers among `args.processes` workers, and adds up their results. Runs in the
/// parent.
pub(crate) async fn run(args: &Args, mode: Mode, progress: &Progress) -> Result<Tally, SaleError> {
    let mut workers = Vec::new();
    let mut first = 0;
    for index in 0..args.processes {
        let share = args.buyers / args.processes + u32::from(index < args.buyers % args.processes);
        if share > 0 {
            workers.push(start(args, mode, first, share)?);
        }
        first += share;
    }
    for worker in &mut workers {
        worker.expect_ready().await?;
    }
    for worker in &mut workers {
        worker.go().await?;
    }
    let done = Cell::new(0);
    let mut total = Tally::default();
    for worker in &mut workers {
        total += worker.finish(&done, progress).await?;
    }
    Ok(total)
}

fn start(args: &Args, mode: Mode, first: u32, share: u32) -> Result<Worker, SaleError> {
    let mode = mode.to_possible_value().expect("both modes have a name");
    let mut process = Command::new(std::env::current_exe()?)
        .args(["--store", &args.store, "--run", &args.run])
        .args(["--worker", mode.get_name()])
        .args(["--buyers", &share.to_string()])
        .args(["--first-buyer", &first.to_string()])
        .args(["--stock", &args.stock.to_string()])
        .args(["--seed", &args.seed.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = process.stdout.take().expect("stdout is piped");
    Ok(Worker {
        process,
        lines: BufReader::new(stdout).lines(),
    })
}

impl Worker {
    async fn expect_ready(&mut self) -> Result<(), SaleError> {
        match self.lines.next_line().await?.as_deref() {
            Some("ready") => Ok(()),
            _ => Err(SaleError::Process("it did not get ready".to_owned())),
        }
    }

    async fn go(&mut self) -> Result<(), SaleError> {
        let stdin = self.process.stdin.as_mut().expect("stdin is piped");
        Ok(stdin.write_all(b"go\n").await?)
    }

    async fn finish(&mut self, done: &Cell<u32>, progress: &Progress) -> Result<Tally, SaleError> {
        let before = done.get();
        while let Some(line) = self.lines.next_line().await? {
            let mut words = line.split(' ');
            let head = words.next();
            let numbers: Vec<u32> = words.filter_map(|word| word.parse().ok()).collect();
            match (head, numbers.as_slice()) {
                (Some("done"), [count]) => {
                    done.set(before + count);
                    progress.set(done.get());
                }
                (Some("tally"), [sold, sold_out, gave_up]) => {
                    return Ok(Tally {
                        sold: *sold,
                        sold_out: *sold_out,
                        gave_up: *gave_up,
                    });
                }
                _ => break,
            }
        }
        Err(SaleError::Process("it ended without a tally".to_owned()))
    }
}

/// Gets ready, waits for `go`, buys, and reports the result. Runs in a worker.
pub(crate) async fn work(args: &Args) -> Result<(), SaleError> {
    let mode = args.worker.expect("only workers work");
    let stock = Stock::open(&args.store, &args.run).await?;
    let pool = crate::open_pool(args, mode).await?;
    println!("ready");
    let mut line = String::new();
    BufReader::new(tokio::io::stdin())
        .read_line(&mut line)
        .await?;
    if line != "go\n" {
        return Err(SaleError::Process("the parent is gone".to_owned()));
    }
    let report_done = |done: u32| {
        if done.is_multiple_of(50) {
            println!("done {done}");
        }
    };
    let tally = crate::crowd::buy_all(args, mode, &stock, report_done).await;
    if let Some(pool) = pool {
        pool.shutdown(std::time::Duration::from_secs(5)).await;
    }
    let tally = tally?;
    println!("tally {} {} {}", tally.sold, tally.sold_out, tally.gave_up);
    Ok(())
}
