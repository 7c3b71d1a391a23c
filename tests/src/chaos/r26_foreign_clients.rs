//! Requirement 26: clients without leasehold's queue also get a key that leasehold's callers use
//! without a pause.
//!
//! Such clients poll at their default intervals, so they get the key only if it is free at the
//! moment of a poll. A client that requests the key again right after its section gets it before
//! any other client polls. So five such clients keep each other waiting for long even without
//! leasehold. For this reason, the test has three parts, and a small run has only the first. First
//! all clients share the key with leasehold, and pause between two sections. Then each client is
//! the only client beside leasehold. Then all clients share the key without a pause. In this last
//! part they are judged together, as one client, and also run without leasehold for comparison.

use std::thread::sleep;
use std::time::Duration;

use super::ending::end_all;
use super::ground::{Ground, REDIS, Requirement, Size};
use super::r26_clients::Program;
use super::r26_company::{Company, Judged};
use super::r26_ours::{OURS, Ours};
use super::sheet::Sheet;
use crate::server::Server;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 26,
    what: "clients that know no queue, beside callers of ours without pause: a section at least every 5 s",
    stores: REDIS,
    run,
};

/// The pause between two sections of a client that shares the key with leasehold and other clients.
const PAUSE: Duration = Duration::from_millis(100);
/// Duration of a run: `SHORT` for one client together with leasehold, `LONG` for all clients
/// without a pause, and for leasehold alone.
const SHORT: Duration = Duration::from_secs(12);
const LONG: Duration = Duration::from_secs(30);

fn run(ground: &Ground, sheet: &Sheet) {
    let time = Duration::from_secs(ground.count(60, 7));
    let programs = match ground.size {
        Size::Full => Program::all(ground),
        Size::Small => Program::of_the_suite(ground),
    };
    for ours in OURS {
        let together = Company {
            ours: Some(ours),
            programs: &programs,
            pause: PAUSE,
            time,
            judged: Judged::Each,
        };
        let beside = together.meet(ground, sheet, "together");
        if ground.size == Size::Full {
            each_alone(ground, sheet, ours, &programs);
            without_a_pause(ground, sheet, Some(ours), &programs);
            cost(ground, sheet, ours, beside);
        }
    }
    if ground.size == Size::Full {
        without_a_pause(ground, sheet, None, &programs);
    }
    sheet.reached("seconds beside other clients", time.as_secs() * 2, 120);
}

/// Runs each client as the only other client on leasehold's key. The client requests the lock again
/// as soon as it has released the lock.
fn each_alone(ground: &Ground, sheet: &Sheet, ours: Ours, programs: &[Program]) {
    for program in programs {
        let alone = Company {
            ours: Some(ours),
            programs: std::slice::from_ref(program),
            pause: Duration::ZERO,
            time: SHORT,
            judged: Judged::Each,
        };
        alone.meet(ground, sheet, program.name());
    }
}

fn without_a_pause(ground: &Ground, sheet: &Sheet, ours: Option<Ours>, programs: &[Program]) {
    let all = Company {
        ours,
        programs,
        pause: Duration::ZERO,
        time: LONG,
        judged: Judged::AsOne,
    };
    all.meet(ground, sheet, "without a pause");
}

/// Reports leasehold's sections per second in three runs. The first two runs have no other clients.
/// In the first run, leasehold also never makes way: it never leaves the key free for such clients.
/// `beside` is the result of the run together with all other clients.
fn cost(ground: &Ground, sheet: &Sheet, ours: Ours, beside: f64) {
    let never = alone(ground, sheet, ours, Some(Duration::ZERO));
    let alone = alone(ground, sheet, ours, None);
    sheet.remark(format!(
        "{}: {never:.0} sections a second alone without making way, {alone:.0} alone, {beside:.0} beside all",
        ours.name
    ));
}

/// Returns leasehold's sections per second without other clients.
fn alone(ground: &Ground, sheet: &Sheet, ours: Ours, make_way: Option<Duration>) -> f64 {
    let server = Server::start();
    let crew = ground.crew(&format!("foreign-{}-alone", ours.folder()));
    let hands = ours.start(&crew, &server.url(), make_way);
    sleep(LONG);
    end_all(sheet, hands);
    let report = crew.report();
    sheet.report(&report);
    if report.violations.is_empty() {
        crew.remove();
    }
    super::r26_company::per_second(report.sections, LONG)
}
