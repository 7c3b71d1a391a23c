//! A load test of two or more order services that share one lock store. Checks the result.
//!
//! Many copies of each order are sent at once, each to the next service. Then more buyers arrive at
//! once than there are items. The result is checked in the database. Exit code 1 means that an
//! order is missing or duplicated, a payment was requested twice, or too many items were sold.
//! `scripts/order-load` sets everything up.

mod args;
mod buys;
mod client;
mod hang_ups;
mod ledger;
mod orders;
mod report;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser as _;

use args::Args;
use client::{Client, Failure};
use ledger::Ledger;
use report::Report;

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("load_orders: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(args: &Args) -> Result<bool, Failure> {
    let ledger = Ledger::open(args).await?;
    let client = Client::new(&args.urls);
    if args.hang_up.is_some() {
        let report = hang_ups::run(&client, &ledger, args).await?;
        report.print();
        return Ok(report.all_as_expected());
    }
    let mut report = Report::default();

    let before = ledger.stock(&args.order_sku).await?;
    let started = Instant::now();
    let orders = orders::send_all(&client, args).await?;
    report.phase("orders", started.elapsed(), &orders.answers);
    let after = ledger.stock(&args.order_sku).await?;
    report.expect(
        "orders in the table",
        ledger.orders(&args.run).await?,
        args.orders,
    );
    report.expect(
        "payments asked for",
        ledger.payments(&args.run).await?,
        args.orders,
    );
    report.expect("items off the stock", before - after, args.orders);
    report.expect(
        "orders answered 201 exactly once",
        orders.made_once,
        args.orders,
    );
    report.expect(
        "duplicates with another answer than 409 or the first result",
        orders.wrong,
        0,
    );

    let before = ledger.stock(&args.buy_sku).await?;
    let sold_before = ledger.sold(&args.buy_sku).await?;
    let started = Instant::now();
    let buys = buys::send_all(&client, args).await?;
    report.phase("buys", started.elapsed(), &buys);
    let expected = before.min(args.buys.into());
    let sold = ledger.sold(&args.buy_sku).await? - sold_before;
    report.expect("items sold, by the table", sold, expected);
    report.expect(
        "items sold, by the answers",
        buys.with_status(201),
        expected,
    );
    report.expect(
        "items left",
        ledger.stock(&args.buy_sku).await?,
        before - expected,
    );

    report.print();
    Ok(report.all_as_expected())
}
