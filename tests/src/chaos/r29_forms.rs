//! Requirement 29: exclusion for several keys, `cooldown`, `reentrant`, `downgrade`, shared locks
//! and permits, under every fault. The loss of any of several keys ends the body.

use std::future::pending;
use std::time::Duration;

use leasehold::__test::now;
use leasehold::LockError;

use super::calls::PLACES;
use super::crew::Crew;
use super::ground::{ALL, Ground, Requirement, Size, connect, local_runtime, on_threads};
use super::job::{Form, Job, Lane, Work};
use super::sheet::Sheet;
use super::store::Store;
use super::storm::{self, Storm, TTL};
use super::tally::Progress;
use crate::lateness;
use crate::oracle::Mode;
use crate::probe::Probe;
use crate::server::Server;
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 29,
    what: "several keys, cooldown, reentrant, downgrade, shares and permits under faults",
    stores: ALL,
    run,
};

const FAULTS: u64 = 150;
const SECTIONS: u64 = 20_000;
const COOLDOWN_MS: u64 = 150;

fn run(ground: &Ground, sheet: &Sheet) {
    let crew = ground.crew("forms");
    // On PostgreSQL each lock costs two commits (acquire and release), so fewer sections are
    // required.
    let sections = match ground.store {
        Store::Postgres => SECTIONS / 20,
        _ => SECTIONS,
    };
    let storm = Storm {
        job,
        beside: &storm::alone,
        awaited: None,
        progress: Progress::Sections,
        enough: sections,
        faults: FAULTS,
        limit: match ground.size {
            Size::Full => Duration::from_secs(120),
            Size::Small => ground.time,
        },
    };
    storm.rage(ground, sheet, &crew);
    let report = crew.report();
    sheet.report(&report);
    let faults = report.faults() - storm::from_inside(&report);
    sheet.reached("sections", report.sections, sections);
    sheet.reached("faults from outside", faults, FAULTS);
    let forms = [report.nested, report.downgraded, report.kept];
    let [nested, downgraded, kept] = forms;
    sheet.remark(format!(
        "{nested} nested, {downgraded} downgraded, {kept} kept; {} leases lost",
        report.lost
    ));
    sheet.check(report.writes > 0 && !forms.contains(&0), || {
        "a form was not played".to_owned()
    });
    if report.violations.is_empty() {
        crew.remove();
    }
    if ground.store == Store::Redis {
        losses(ground, sheet);
    }
}

/// Returns a job with separate keys for each form. On most of these keys, ordinary calls (`Plain`)
/// contend with the calls of the form.
fn job(crew: &Crew, url: &str, prefix: &str, seed: u64) -> Job {
    let lane = |kind: &str, keys: u32, copies, form, work| Lane {
        keys: (0..keys)
            .map(|number| format!("{prefix}{kind}{number}"))
            .collect(),
        copies,
        ttl_ms: u64::try_from(TTL.as_millis()).unwrap_or(0),
        work,
        times: 0,
        drop_one_in: 150,
        block_one_in: 2_000,
        ..Lane::stays("", 0, 0).as_form(form).waits(3_000)
    };
    let count = |pause_us| Work::Count { pause_us };
    let read = |pause_us| Work::Read { pause_us };
    let kept = Form::Kept { ms: COOLDOWN_MS };
    let downgrading = Form::Downgrading { max_hold_ms: 0 };
    let lanes = vec![
        lane("pair", 6, 4, Form::Pair, count(2_000)),
        lane("pair", 6, 4, Form::Pair, count(300_000)).watched(),
        lane("pair", 6, 2, Form::Pair, read(20_000)).held_as(Mode::Reader),
        lane("pair", 6, 2, Form::Pair, read(400_000))
            .held_as(Mode::Reader)
            .watched(),
        lane("pair", 6, 2, Form::Plain, count(1_000)),
        lane("kept", 4, 3, kept, count(1_000)),
        lane("kept", 4, 2, kept, count(500_000)).watched(),
        lane("kept", 4, 2, Form::Plain, count(1_000)),
        lane("nest", 4, 3, Form::Nesting, count(2_000)),
        lane("nest", 4, 2, Form::Nesting, count(300_000)).watched(),
        lane("nest", 4, 2, Form::Plain, count(1_000)),
        lane("down", 4, 3, downgrading, count(2_000)),
        lane("down", 4, 2, downgrading, count(300_000)).watched(),
        lane("down", 4, 3, Form::Plain, read(20_000)).held_as(Mode::Reader),
        lane("down", 4, 1, Form::Plain, count(1_000)),
        lane("place", 2, 4, Form::Plain, read(2_000)).held_as(Mode::Place(PLACES)),
        lane("place", 2, 3, Form::Plain, read(500_000))
            .held_as(Mode::Place(PLACES))
            .watched(),
    ];
    Job {
        seed,
        ..crew.job(url, lanes)
    }
}

/// Deletes one of a call's three keys, at random, while the body waits for an event that never
/// comes. The call must end with `Lost`, and the other keys must become free.
fn losses(ground: &Ground, sheet: &Sheet) {
    const LEASE: Duration = Duration::from_secs(3);
    let total = ground.count(120, 12);
    let server = Server::start();
    let mut random = ground.random(29);
    on_threads(12, total, &mut random, |_, mut random, next| {
        let runtime = local_runtime();
        let pool = runtime.block_on(connect(&server.url()));
        let probe = server.probe().namespace("lock:");
        while let Some(number) = next() {
            let keys = ["a", "b", "c"].map(|key| format!("{key}-{number}"));
            let lost = keys[usize::try_from(random.below(3)).unwrap_or(0)].clone();
            let request = pool.lock_all(keys.clone()).ttl(LEASE).watchdog();
            let (probe, stolen) = (&probe, lost.clone());
            let body = async move {
                probe.delete(&stolen);
                (now(), pending::<()>().await)
            };
            let from = now();
            let limit = LEASE / 3 + Duration::from_millis(900);
            let ended = runtime.block_on(async {
                let call = request.run(body);
                tokio::time::timeout(limit + lateness::worst_since(from), call).await
            });
            sheet.faults("one of three keys deleted", 1);
            let reported = matches!(&ended, Ok(Err(LockError::Lost { key, .. })) if *key == lost);
            sheet.check(reported, || {
                format!("{lost} of {keys:?} was deleted: {ended:?}")
            });
            let free = || !keys.iter().any(|key| probe.exists(key));
            let freed = wait::try_until(Duration::from_secs(1), free);
            sheet.check(freed.is_some(), || {
                format!("of {keys:?} some stayed locked")
            });
        }
    });
    sheet.sections(total);
    sheet.reached("losses of one of three keys", total, 120);
}
