//! Requirement 34: an order is made once for any number of clicks (calls for the order), and every
//! answered click gets the same order. Meanwhile processes are killed, and every other fault is
//! injected. If a process crashes after it has committed the order and before it releases the lock,
//! no result is kept. `window` kills a process at such a moment. The unique key of the table still
//! prevents a second order.

use std::collections::BTreeMap;
use std::time::Duration;

use super::crew::Crew;
use super::ending::end_all;
use super::ground::{Ground, REDIS, Requirement, local_runtime};
use super::job::{Form, Lane, Work};
use super::mortals;
use super::orders::Orders;
use super::r34_faults::{self, REPLAY_MS};
use super::sheet::Sheet;
use crate::oracle::Note;
use crate::probe::Probe;
use crate::server::Server;
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 34,
    what: "each order is made once, and every answered click has the same one",
    stores: REDIS,
    run,
};

const ORDERS: u64 = 1_000;
const CLICKS: u64 = 20;
const TTL_MS: u64 = 5_000;
const LONG: Duration = Duration::from_secs(20);

/// Returns a group of calls ("clicks"). Each call requests a random order of `keys`.
fn lane(keys: Vec<String>, pause_us: u64) -> Lane {
    Lane {
        keys,
        ttl_ms: TTL_MS,
        form: Form::Replayed {
            ms: REPLAY_MS,
            requests: 1,
        },
        work: Work::Order { pause_us },
        times: 0,
        ..Lane::stays("", 0, 0)
    }
}

fn run(ground: &Ground, sheet: &Sheet) {
    clicks(ground, sheet);
    window(ground, sheet);
    r34_faults::storm(ground, sheet);
    r34_faults::emptied(ground, sheet);
}

fn clicks(ground: &Ground, sheet: &Sheet) {
    let orders = ground.count(ORDERS, 60);
    let server = Server::start();
    let crew = ground.crew("replay");
    let keys: Vec<String> = (0..orders)
        .map(|number| format!("order-{number}"))
        .collect();
    for key in &keys {
        let key = key.clone();
        crew.note(&Note::AllKept { key });
    }
    let runtime = local_runtime();
    let table = runtime.block_on(Orders::create(&crew.ledger()));
    let mut clicking = lane(keys, 3_000);
    clicking.copies = 4;
    clicking.drop_one_in = 200;
    let time = Duration::from_secs(ground.count(40, 8));
    let mut random = ground.random(34);
    let hands = mortals::live(&crew, &server.url(), &[clicking], time, &mut random);
    let enough = wait::try_until(LONG * 6, || answered(&crew) >= (orders, orders * CLICKS));
    sheet.check(enough.is_some(), || {
        format!(
            "of {orders} orders some are not answered: {:?}",
            answered(&crew)
        )
    });
    end_all(sheet, hands);
    let report = crew.report();
    mortals::record(sheet, &report);
    let made = runtime.block_on(table.count());
    sheet.check(made == orders, || {
        format!("{made} of {orders} orders are made")
    });
    let ran = report.answered - report.replayed;
    sheet.remark(format!(
        "{orders} orders, {} clicks answered: {ran} by a body, {} from a result; {} bodies began",
        report.answered, report.replayed, report.sections
    ));
    sheet.check(report.replayed > 0, || "nothing was replayed".to_owned());
    sheet.reached("clicks", report.answered, ORDERS * CLICKS);
    if report.violations.is_empty() {
        crew.remove();
    }
}

/// Counts the answered calls in the history. Returns the number of orders with an answered call,
/// and the number of answered calls.
fn answered(crew: &Crew) -> (u64, u64) {
    let (mut watch, mut by_key) = (crew.watch(), BTreeMap::<String, u64>::new());
    while let Some(note) = watch.next_note() {
        if let Note::Answered { key, .. } = note {
            *by_key.entry(key).or_default() += 1;
        }
    }
    let orders = u64::try_from(by_key.len()).unwrap_or(0);
    (orders, by_key.values().sum())
}

/// Kills a process after its body has committed an order and before it releases the lock. The next
/// call runs its own body, which finds and returns the order of the killed process.
fn window(ground: &Ground, sheet: &Sheet) {
    let server = Server::start();
    let crew = ground.crew("replay-window");
    let runtime = local_runtime();
    let table = runtime.block_on(Orders::create(&crew.ledger()));
    let keys = vec!["order".to_owned()];
    let mut dies = crew.spawn(
        &crew.job(&server.url(), vec![lane(keys.clone(), 60_000_000)]),
        None,
    );
    let committed = || runtime.block_on(table.count()) == 1;
    wait::until("the first body commits", LONG, committed);
    crew.fault("SIGKILL between commit and release");
    dies.process().kill();
    let probe = server.probe().namespace("lock:");
    wait::until("the lock expires", LONG, || !probe.exists("order"));
    let mut clicks = lane(keys, 0);
    clicks.times = 3;
    let mut hand = crew.spawn(&crew.job(&server.url(), vec![clicks]), None);
    wait::until("the later clicks", LONG, || hand.has_ended());
    let report = crew.report();
    sheet.report(&report);
    let counts = (report.sections, report.answered, report.replayed);
    sheet.check(counts == (2, 3, 2), || {
        format!("bodies, answers, replayed: {counts:?} instead of (2, 3, 2)")
    });
    let made = runtime.block_on(table.count());
    sheet.check(made == 1, || format!("{made} orders are made"));
    if report.violations.is_empty() {
        crew.remove();
    }
}
