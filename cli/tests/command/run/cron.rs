//! A job that cron starts on every machine in the same minute, but that only one machine runs.

use leasehold_tests::room;
use leasehold_tests::sentinel::Deployment;
use leasehold_tests::server::Server;
use leasehold_tests::wait;

use crate::harness::journal::Journal;
use crate::harness::{LONG, Running, ended, run};

/// Number of processes that start the same job, as if on as many machines.
const STARTS: usize = 12;

/// Starts the same job in several processes at once, without `--wait`. Fails unless exactly one
/// process runs the job, and all others exit with code 75.
pub(super) fn one_of_many_runs(url: &str) {
    let journal = Journal::new();
    let script = format!(
        "{}; {}",
        journal.note("ran $LEASEHOLD_FENCE"),
        journal.until("end")
    );
    let start = || Running::start(&mut run(url, "job:nightly", &[], &script));
    let mut started: Vec<Running> = (0..STARTS).map(|_| start()).collect();
    wait::until("all but one end", LONG, || {
        let running = started
            .iter_mut()
            .filter_map(|one| one.exited().is_none().then_some(()));
        running.count() == 1
    });
    journal.wait_for("ran");
    journal.open("end");
    let mut codes: Vec<_> = started.into_iter().map(|one| one.wait().code).collect();
    codes.sort_unstable();
    let mut expected = vec![Some(75); STARTS];
    expected[0] = Some(0);
    assert_eq!(codes, expected);
    assert_eq!(journal.lines().len(), 1, "{:?}", journal.lines());
}

/// Starts the same job in several processes at once, with `--wait`. Fails if two jobs run at the
/// same time, or if one never runs.
pub(super) fn all_that_wait_run_one_by_one(url: &str) {
    let journal = Journal::new();
    let script = format!(
        "{}; sleep 0.05; {}",
        journal.note("begin $$"),
        journal.note("end $$")
    );
    let options = ["--wait", "60s"];
    let start = || Running::start(&mut run(url, "job:queue", &options, &script));
    let started: Vec<Running> = (0..STARTS).map(|_| start()).collect();
    for one in started {
        let ended = one.wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    let lines = journal.lines();
    assert_eq!(lines.len(), 2 * STARTS);
    for pair in lines.chunks(2) {
        let process = pair[0].strip_prefix("begin ").expect("a beginning");
        assert_eq!(pair[1], format!("end {process}"), "{lines:?}");
    }
}

/// A machine with a late clock starts a short job that another machine has already run. Fails if
/// the job runs again in spite of `--min-hold`. Also fails if `--quiet` prints anything, because
/// cron would send the output by mail.
#[test]
fn a_machine_with_a_late_clock_skips_the_job() {
    let server = Server::start();
    let options = ["--quiet", "--ttl", "2s", "--min-hold", "1h"];
    let start = || ended(&mut run(&server.url(), "job", &options, "echo ran"));
    let (first, late) = (start(), start());
    assert_eq!(
        (first.code, first.out.as_str()),
        (Some(0), "ran\n"),
        "{first:?}"
    );
    assert_eq!(
        (late.code, late.out.as_str(), late.err.as_str()),
        (Some(75), "", "")
    );
}

#[test]
fn one_of_many_machines_runs_the_job_on_redis() {
    let _room = room::enter();
    one_of_many_runs(&Server::start().url());
}

#[test]
fn waiting_machines_run_one_by_one_on_redis() {
    let _room = room::enter();
    all_that_wait_run_one_by_one(&Server::start().url());
}

#[test]
fn jobs_run_once_or_one_by_one_with_sentinel() {
    let _room = room::enter();
    let deployment = Deployment::start();
    one_of_many_runs(&deployment.url());
    all_that_wait_run_one_by_one(&deployment.url());
}
