//! Requirement 1: no two leases of one key overlap, under any fault.
//!
//! Worker processes increment counters under locks. Each process reaches a Redis or PostgreSQL
//! server through a separate proxy, which injects network faults. The server writes every change to
//! disk before it answers, because no promise covers a server that loses acknowledged writes. A
//! `memory://` store is part of its process, so the faults from outside are stops and kills of the
//! process. The process that replaces a killed one starts with an empty store, whose fences begin
//! again. So it uses new keys.

use std::time::Duration;

use super::crew::Crew;
use super::ground::{ALL, Ground, Requirement, Size};
use super::job::{Form, Job, Lane, Work};
use super::sheet::Sheet;
use super::store::Store;
use super::storm::{self, Storm, TTL};
use super::tally::Progress;
use crate::oracle::Mode;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 1,
    what: "lease exclusion under faults",
    stores: ALL,
    run,
};

const FAULTS: u64 = 500;
/// Time limit for a full run to reach its required sections and faults.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

fn run(ground: &Ground, sheet: &Sheet) {
    let crew = ground.crew("exclusion");
    // On PostgreSQL each lock costs two commits (acquire and release), so fewer sections are
    // required.
    let sections = match ground.store {
        Store::Postgres => ground.sections / 20,
        _ => ground.sections,
    };
    let storm = Storm {
        job,
        beside: &storm::alone,
        awaited: None,
        progress: Progress::Sections,
        enough: sections,
        faults: FAULTS,
        limit: match ground.size {
            Size::Full => ground.time.max(PATIENCE),
            Size::Small => ground.time,
        },
    };
    storm.rage(ground, sheet, &crew);
    let report = crew.report();
    sheet.report(&report);
    let inside = storm::from_inside(&report);
    sheet.reached("sections", report.sections, sections);
    sheet.reached("faults from outside", report.faults() - inside, FAULTS);
    sheet.remark(format!(
        "{inside} dropped futures and blocked workers besides"
    ));
    sheet.remark(format!("{} leases lost", report.lost));
    sheet.remark(format!(
        "{} writes refused after their deadline",
        report.late_writes
    ));
    sheet.remark(format!("history {}", crew.history().display()));
    sheet.check(report.sections > 0 && report.writes > 0, || {
        "nothing ran".to_owned()
    });
    if ground.size == Size::Small && report.violations.is_empty() {
        crew.remove();
    }
}

/// Returns a job whose calls increment counters. Some bodies are short and others long, and many
/// callers share few keys.
pub(super) fn job(crew: &Crew, url: &str, prefix: &str, seed: u64) -> Job {
    let count = |kind: &str, keys: u32, copies, watchdog, pause_us| Lane {
        keys: (0..keys)
            .map(|number| format!("{prefix}{kind}{number}"))
            .collect(),
        in_turn: false,
        copies,
        ttl_ms: u64::try_from(TTL.as_millis()).unwrap_or(0),
        wait_ms: 3_000,
        watchdog,
        mode: Mode::Alone,
        form: Form::Plain,
        fails: false,
        work: Work::Count { pause_us },
        times: 0,
        drop_one_in: 200,
        block_one_in: 4_000,
    };
    let lanes = vec![
        count("short", 100, 32, false, 200),
        count("short", 100, 8, true, 3_000),
        // At any time, some of these long bodies are inside their locks, so that every fault hits
        // held leases.
        count("long", 16, 6, false, 500_000),
        count("long", 16, 6, true, 900_000),
    ];
    Job {
        seed,
        ..crew.job(url, lanes)
    }
}
