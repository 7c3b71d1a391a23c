//! Requirement 34 (each order is made once) while masters fail. A master may fail before a kept
//! result is on a replica. The result is then lost, and the next call runs the body again. The
//! unique key of the table rejects the second order, so the second body returns the first order. In
//! this way, every click (a call for the order) gets the first order.

use super::crew::Crew;
use super::ground::{Ground, Requirement};
use super::job::Job;
use super::r01_fail_overs::{Goal, TTL, under_load};
use super::r34_faults::{lanes, record, table};
use super::sheet::Sheet;
use super::store::Store;
use super::tally::{Progress, Span};
use crate::cluster::Cluster;
use crate::sentinel::Deployment;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 34,
    what: "each order is made once while masters fail, and every answered click has the same one",
    stores: &[Store::Sentinel, Store::Cluster],
    run,
};

const ANSWERS: u64 = 50_000;
const FAIL_OVERS: u64 = 10;
const KEYS: u32 = 1_500;

fn run(ground: &Ground, sheet: &Sheet) {
    let crew = ground.crew("replay-fail-overs");
    table(&crew);
    let mut random = ground.random(34);
    let under_load = match ground.store {
        Store::Cluster => under_load::<Cluster>,
        _ => under_load::<Deployment>,
    };
    let goal = Goal {
        span: Span::of(ground, 1),
        counted: Progress::Answers,
        progress: ANSWERS,
        fail_overs: FAIL_OVERS,
    };
    let fail_overs = under_load(&crew, "0", &goal, &mut random, sheet, job);
    let report = crew.report();
    record(sheet, "while masters fail", &report);
    sheet.reached("answers", report.answered, ANSWERS);
    sheet.reached("fail-overs", fail_overs, FAIL_OVERS);
    let well = report.violations.is_empty();
    let overlaps = sheet.report_replicated(report);
    sheet.remark(format!("{overlaps} overlaps of locks that no replica had"));
    if well {
        crew.remove();
    }
}

fn job(crew: &Crew, url: &str, seed: u64) -> Job {
    Job {
        seed,
        ..crew.job(url, lanes(0, KEYS, TTL))
    }
}
