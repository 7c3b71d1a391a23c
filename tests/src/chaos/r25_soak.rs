//! Requirement 25: memory does not grow.

use std::path::Path;
use std::time::{Duration, Instant};

use super::ground::{BOTH, Ground, Requirement, Size, Store};
use super::job::{Job, Lane, Work};
use super::sheet::Sheet;
use crate::server::Server;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 25,
    what: "long soak: memory growth < 1 % after warm-up",
    stores: BOTH,
    run,
};

const STEP: Duration = Duration::from_millis(500);
const WANTED: u64 = 30;

/// Locks on many keys that come and go, some of which are dropped on the way, in a process of their own.
fn run(ground: &Ground, sheet: &Sheet) {
    let crew = ground.crew("soak");
    let server = (ground.store == Store::Redis).then(Server::start);
    let url = server
        .as_ref()
        .map_or_else(|| "memory://soak".to_owned(), Server::url);
    let lane = |keys: u32, copies, watchdog, pause_us, drop_one_in| Lane {
        keys: (0..keys).map(|number| format!("soak-{number}")).collect(),
        in_turn: false,
        copies,
        ttl_ms: 2_000,
        wait_ms: 1_000,
        watchdog,
        work: Work::Count { pause_us },
        times: 0,
        drop_one_in,
        block_one_in: 0,
    };
    let job = Job {
        history: "/dev/null".into(),
        threads: 1,
        ..crew.job(
            &url,
            vec![lane(200, 4, true, 5_000, 50), lane(20, 4, false, 2_000, 0)],
        )
    };
    let mut hand = crew.spawn(&job, None);
    let samples = samples(hand.process().id(), ground.time);
    sheet.check(!hand.has_ended(), || "the soaked process ended".to_owned());
    sheet.check(hand.finish(), || {
        "the soaked process ended badly".to_owned()
    });
    judge(ground, sheet, &samples);
    crew.remove();
}

/// The resident memory in KiB, now and then.
fn samples(process: u32, time: Duration) -> Vec<u64> {
    let started = Instant::now();
    let mut samples = Vec::new();
    while started.elapsed() < time {
        std::thread::sleep(STEP);
        samples.extend(resident(process));
    }
    samples
}

fn resident(process: u32) -> Option<u64> {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(Path::new(&path)).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn judge(ground: &Ground, sheet: &Sheet, samples: &[u64]) {
    let tenth = samples.len() / 10;
    if tenth == 0 {
        sheet.remark("too short to judge, or a system without /proc");
        return;
    }
    // The first fifth is warm-up.
    let before = median(&samples[2 * tenth..3 * tenth]);
    let after = median(&samples[samples.len() - tenth..]);
    let growth = 100 * after.saturating_sub(before);
    let minutes = ground.time.as_secs() / 60;
    sheet.reached("minutes", minutes, WANTED);
    sheet.remark(format!(
        "{before} KiB after warm-up, {after} KiB at the end"
    ));
    let allowed = if ground.size == Size::Full {
        before
    } else {
        20 * before
    };
    sheet.check(growth < allowed, || {
        format!("memory grew from {before} to {after} KiB")
    });
}

fn median(samples: &[u64]) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}
