//! Requirement 28: callers of whatever priority delay no renewal.
//!
//! The callers' threads run only when nothing else wants the processor, and three threads spin beside them. What renews is a thread
//! of the engine's, which has the usual priority; it must not wait for what callers have begun and cannot go on with.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::ground::{Ground, REDIS, Requirement};
use super::job::{Lane, Work};
use super::sheet::Sheet;
use crate::oracle::Note;
use crate::server::Server;
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 28,
    what: "callers of any priority delay no renewal",
    stores: REDIS,
    run,
};

const SPINNING: usize = 3;
const TTL_MS: u64 = 1_000;
const RUN: Duration = Duration::from_secs(8);
const LIMIT: Duration = Duration::from_secs(60);

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(10, 1);
    // First as usual: what is lost then is this machine's doing.
    let usual = played(ground, sheet, false, total);
    sheet.remark(format!(
        "{usual} of {total} with callers of the usual priority"
    ));
    let kept = played(ground, sheet, true, total);
    sheet.check(kept == total, || {
        format!(
            "with idle callers {} of {total} leases were lost",
            total - kept
        )
    });
    sheet.reached("leases of 1 s kept for 8 s beside idle callers", kept, 10);
}

/// In how many of the runs the lease is kept.
fn played(ground: &Ground, sheet: &Sheet, idle: bool, total: u64) -> u64 {
    (0..total).filter(|_| is_kept(ground, sheet, idle)).count() as u64
}

fn is_kept(ground: &Ground, sheet: &Sheet, idle: bool) -> bool {
    let crew = ground.crew("priority");
    let server = Server::start();
    let lease = Lane {
        work: Work::Wait { ms: 60_000 },
        ..Lane::stays("lease", TTL_MS, 0).watched()
    };
    let busy = Lane {
        keys: (0..4).map(|number| format!("busy{number}")).collect(),
        copies: 8,
        work: Work::Count { pause_us: 0 },
        times: 0,
        ..Lane::stays("", TTL_MS, 0).waits(TTL_MS)
    };
    let mut job = crew.job(&server.url(), vec![lease, busy]);
    job.idle = idle;
    let hand = crew.spawn(&job, None);
    wait::until("the lease is taken", LIMIT, || {
        server.probe().get("lock:lease").is_some()
    });
    beside_spinning_threads(|| std::thread::sleep(RUN));
    drop(hand);
    let lost = |note: &Note| matches!(note, Note::Lost { key, .. } if key == "lease");
    // The key is gone as well when the holder could not tell.
    let told = crew.watch().wait_for(Duration::ZERO, lost).is_some();
    sheet.faults("threads spin beside callers", 1);
    sheet.sections(crew.report().sections);
    let kept = !told && server.probe().get("lock:lease").is_some();
    if kept {
        crew.remove();
    }
    kept
}

fn beside_spinning_threads(work: impl FnOnce()) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..SPINNING {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        work();
        over.store(true, Ordering::Relaxed);
    });
}
