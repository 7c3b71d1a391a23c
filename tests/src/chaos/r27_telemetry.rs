//! Requirement 27: a log or a metrics recorder may block, or panic once. Even then no lease is
//! lost, and no call exceeds its time limit.
//!
//! The log and the recorder are user code that leasehold calls. A process holds many locks while
//! its log or its recorder writes to a full pipe, or panics. Further calls begin and end, and some
//! queue for a lock that stays held. Meanwhile the server ends the connections, so that leasehold
//! has something to log.

use std::time::Duration;

use super::crew::{Crew, Hand};
use super::faults::kill_clients;
use super::ground::{Ground, REDIS, Requirement};
use super::job::{Lane, Outlet, Telemetry, Trouble, Work};
use super::sheet::Sheet;
use crate::oracle::Note;
use crate::probe::Probe;
use crate::server::Server;
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 27,
    what: "a log or a recorder that blocks or panics costs no lease and no budget",
    stores: REDIS,
    run,
};

const TTL_MS: u64 = 2_000;
/// The key that a probe holds during the whole run.
const HELD: &str = "held";
const WAIT_MS: u64 = 1_000;
/// Time from the start of the calls to the fault of the log or recorder.
const AFTER_MS: u64 = 1_500;
const LIMIT: Duration = Duration::from_secs(30);

fn run(ground: &Ground, sheet: &Sheet) {
    let leases = ground.count(100, 20);
    let for_ms = ground.count(10_000, 3_000);
    let mut cases = Vec::new();
    for outlet in [Outlet::Log, Outlet::Metrics] {
        for trouble in [Trouble::Blocks { for_ms }, Trouble::Panics] {
            cases.push(Telemetry {
                outlet,
                trouble,
                after_ms: AFTER_MS,
            });
        }
    }
    let cases = &cases;
    std::thread::scope(|scope| {
        for telemetry in cases {
            scope.spawn(move || play(ground, sheet, *telemetry, leases));
        }
    });
}

fn play(ground: &Ground, sheet: &Sheet, telemetry: Telemetry, leases: u64) {
    let name = telemetry.name();
    let crew = ground.crew(&name.replace(' ', "-"));
    let server = Server::start();
    assert!(server.probe().namespace("lock:").take(HELD, LIMIT * 4));
    let lasts = match telemetry.trouble {
        Trouble::Blocks { for_ms } => for_ms,
        Trouble::Panics => TTL_MS * 2,
    };
    let mut hand = start(&crew, &server, telemetry, leases, AFTER_MS + lasts);
    let hit = |note: &Note| matches!(note, Note::Fault { kind, .. } if *kind == name);
    let mut watch = crew.watch();
    std::thread::sleep(Duration::from_millis(AFTER_MS + 200));
    kill_clients(&server);
    let hit = watch.wait_for(LIMIT, hit).is_some();
    sheet.check(hit, || format!("{name}: nothing was reported"));
    std::thread::sleep(Duration::from_millis(lasts + 1_000));
    sheet.check(hand.finish(), || format!("{name}: the process did not end"));
    let report = crew.report();
    sheet.report(&report);
    sheet.check(report.refused > 0, || format!("{name}: no call queued"));
    sheet.reached(kept(telemetry), leases.saturating_sub(report.lost), 100);
    if report.violations.is_empty() {
        crew.remove();
    }
}

fn kept(telemetry: Telemetry) -> &'static str {
    match (telemetry.outlet, telemetry.trouble) {
        (Outlet::Log, Trouble::Blocks { .. }) => "leases kept while the log blocks",
        (Outlet::Log, Trouble::Panics) => "when the log panics",
        (Outlet::Metrics, Trouble::Blocks { .. }) => "while the recorder blocks",
        (Outlet::Metrics, Trouble::Panics) => "when the recorder panics",
    }
}

/// Starts holders of many locks, calls that begin and end, and calls that wait for `HELD` until
/// their time limit.
fn start(crew: &Crew, server: &Server, telemetry: Telemetry, leases: u64, lasts: u64) -> Hand {
    let keys = |kind: &str, count: u64| -> Vec<String> {
        (0..count).map(|number| format!("{kind}{number}")).collect()
    };
    let holders = Lane {
        keys: keys("lease", leases),
        in_turn: true,
        copies: u32::try_from(leases).unwrap_or(1),
        work: Work::Wait { ms: lasts + 500 },
        ..Lane::stays("", TTL_MS, 0).watched()
    };
    let busy = Lane {
        keys: keys("busy", 4),
        copies: 2,
        work: Work::Count { pause_us: 2_000 },
        times: 0,
        ..Lane::stays("", TTL_MS, 0).waits(WAIT_MS)
    };
    let refused = Lane {
        copies: 2,
        times: 0,
        ..Lane::stays(HELD, TTL_MS, 0).waits(WAIT_MS)
    };
    for key in holders.keys.iter().map(String::as_str).chain([HELD]) {
        crew.note(&Note::Undisturbed {
            key: key.to_owned(),
        });
    }
    let mut job = crew.job(&server.url(), vec![holders, busy, refused]);
    // A caller that writes to the blocked log blocks its thread. So there must be more threads than
    // such callers.
    job.threads = 12;
    job.telemetry = Some(telemetry);
    let hand = crew.spawn(&job, None);
    wait::until("all locks are held", LIMIT, || {
        crew.report().sections >= leases
    });
    hand
}
