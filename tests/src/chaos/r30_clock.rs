//! Requirement 30: the server's clock is set forward or back by an hour. Fences still grow, and no
//! call waits longer than usual.
//!
//! Exclusion is not promised while the clock is set: a clock set forward ends leases on the server
//! before their holders can notice.

use std::time::Duration;

use leasehold::__test::now;
use leasehold::{Fence, LockPool};

use super::crew::Crew;
use super::ground::{Ground, REDIS, Requirement, connect, local_runtime};
use super::job::Lane;
use super::sheet::Sheet;
use super::site::queued;
use super::span::nanos;
use crate::lateness::Excuse;
use crate::oracle::{Mode, Note};
use crate::server::{Server, ServerOptions};
use crate::server_clock::ServerClock;
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 30,
    what: "the server's clock is set by an hour: fences grow, a dead waiter costs what it did",
    stores: REDIS,
    run,
};

const HOUR: i64 = 3_600;
const TTL: Duration = Duration::from_secs(20);
/// Bound on the wait behind a stopped process at the head of the queue. The key is reserved for
/// that process for one second. The next process repeats its request at most 0.75 s later.
const BOUND: Duration = Duration::from_millis(1_800);
const LIMIT: Duration = Duration::from_secs(30);

fn run(ground: &Ground, sheet: &Sheet) {
    let clock = ServerClock::new();
    let server = ServerOptions::new().clock(&clock).start();
    fences(ground, sheet, &server, &clock);
    renewals(sheet, &server, &clock);
    waiters(ground, sheet, &server, &clock);
}

/// Returns the successive offsets of the clock, in seconds.
fn steps() -> impl Iterator<Item = i64> {
    [0, -HOUR, 0, HOUR].into_iter().cycle()
}

fn set(sheet: &Sheet, clock: &ServerClock, offset: i64) {
    sheet.faults("server clock set by an hour", 1);
    clock.set(offset);
}

/// Lets two pools take one key alternately, and checks that each fence is greater than the previous
/// one. The clock is set only while the key is free.
fn fences(ground: &Ground, sheet: &Sheet, server: &Server, clock: &ServerClock) {
    let total = ground.count(40, 8);
    let runtime = local_runtime();
    let pools = [(); 2].map(|()| runtime.block_on(connect(&server.url())));
    let (mut last, mut count) = (None, 0);
    for offset in steps().take(usize::try_from(total).unwrap_or(0)) {
        set(sheet, clock, offset);
        for pool in pools.iter().cycle().take(6) {
            let fence = runtime.block_on(fence(pool));
            if fence <= last {
                sheet.inversion(format!("{fence:?} after {last:?}, clock set by {offset} s"));
            }
            (last, count) = (fence, count + 1);
        }
    }
    clock.set(0);
    sheet.sections(count);
    sheet.reached("fences of clocks that were set", count, 240);
}

async fn fence(pool: &LockPool) -> Option<Fence> {
    let guard = pool.lock("fences").ttl(TTL).wait(LIMIT).acquire().await;
    let guard = guard.expect("it comes free");
    let fence = guard.fence();
    guard.release().await.expect("held until now");
    fence
}

/// Sets the clock back while leases of each kind are renewed. No lease may be lost.
fn renewals(sheet: &Sheet, server: &Server, clock: &ServerClock) {
    const SHORT: Duration = Duration::from_secs(1);
    let runtime = local_runtime();
    let pool = runtime.block_on(connect(&server.url()));
    let requests = [
        pool.lock("alone"),
        pool.lock_all(["one", "two"]),
        pool.lock("shared").shared(),
        pool.lock("permit").permits(2),
    ];
    let guards = requests.map(|request| {
        let request = request.ttl(SHORT).watchdog();
        runtime.block_on(request.acquire()).expect("it is free")
    });
    set(sheet, clock, -HOUR);
    std::thread::sleep(SHORT * 3);
    for guard in guards {
        let released = runtime.block_on(guard.release());
        sheet.check(released.is_ok(), || {
            format!("a clock that was set back ended a lease: {released:?}")
        });
    }
    clock.set(0);
}

/// The modes of the holder, of a stopped waiting process, and of the next waiting process.
type Case = (Mode, Mode, Mode);

const CASES: [Case; 5] = [
    // The holder, a reader, stays inside. The next process is also a reader, so it may enter while
    // the holder is inside.
    (Mode::Reader, Mode::Alone, Mode::Reader),
    (Mode::Alone, Mode::Alone, Mode::Reader),
    (Mode::Alone, Mode::Reader, Mode::Alone),
    (Mode::Alone, Mode::Alone, Mode::Alone),
    (Mode::Alone, Mode::Reader, Mode::Reader),
];

fn waiters(ground: &Ground, sheet: &Sheet, server: &Server, clock: &ServerClock) {
    let crew = ground.crew("clock");
    let total = ground.count(30, 5);
    let rounds = CASES.into_iter().cycle().zip(offsets());
    for (number, (case, offset)) in (0..total).zip(rounds) {
        waiter(&crew, sheet, server, clock, number, case, offset);
    }
    let report = crew.report();
    sheet.report(&report);
    sheet.reached("dead waiters", total, 30);
    if report.violations.is_empty() {
        crew.remove();
    }
}

/// Returns the clock's offset, in seconds, for each round with a stopped process in the queue. In
/// one of four rounds the clock is unchanged.
fn offsets() -> impl Iterator<Item = i64> {
    [-HOUR, -HOUR, HOUR, 0].into_iter().cycle()
}

/// Stops a process at the head of the queue, and lets another process queue behind it. Then sets
/// the clock, and releases the lock unless the holder is a reader. The other process must enter
/// within `BOUND`.
fn waiter(
    crew: &Crew,
    sheet: &Sheet,
    server: &Server,
    clock: &ServerClock,
    number: u64,
    (holder, stopped, next): Case,
    offset: i64,
) {
    let key = format!("waits-{number}");
    let (probe, runtime) = (server.probe(), local_runtime());
    let pool = runtime.block_on(connect(&server.url()));
    let request = pool.lock(&*key).ttl(TTL);
    let request = match holder {
        Mode::Reader => request.shared().watchdog(),
        _ => request,
    };
    let held = runtime.block_on(request.acquire()).expect("it is free");
    let lane = |mode| Lane::stays(&key, 20_000, 50).held_as(mode).waits(60_000);
    let start = |mode| crew.spawn(&crew.job(&server.url(), vec![lane(mode)]), None);
    let mut dead = start(stopped);
    wait::until("one queues", LIMIT, || queued(&probe, &key) == 1);
    dead.process().pause();
    let waits = start(next);
    wait::until("another one queues", LIMIT, || queued(&probe, &key) == 2);
    let mut watch = crew.watch();
    while watch.next_note().is_some() {}
    set(sheet, clock, offset);
    let (due, excuse) = (now(), Excuse::begin());
    let held = if holder == Mode::Reader {
        Some(held)
    } else {
        // An error is ignored, because the lease has ended if the clock was set forward.
        let _ = runtime.block_on(held.release());
        None
    };
    let entered = |note: &Note| matches!(note, Note::Enter { key: of, .. } if *of == key);
    let at = match watch.wait_for(BOUND * 4, entered) {
        Some(Note::Enter { at, .. }) => at,
        _ => now(),
    };
    let within = nanos(BOUND + excuse.so_far());
    if at.saturating_sub(due) > within {
        let waited = Duration::from_nanos(at.saturating_sub(due));
        sheet.remark(format!(
            "held {holder:?}, {next:?} behind a dead {stopped:?}, clock set by {offset} s: {waited:.1?}"
        ));
    }
    crew.note(&Note::Free {
        key,
        due,
        at,
        within,
    });
    drop((dead, waits, held));
    clock.set(0);
}
