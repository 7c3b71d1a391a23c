//! Requirement 24 for queues: processes killed or stopped in the queue do not delay the next
//! process for long.

use std::time::Duration;

use leasehold::__test::now;

use super::crew::Crew;
use super::ground::{Ground, Requirement, SERVERS, connect, runtime};
use super::job::Lane;
use super::mortals::rounds;
use super::sheet::Sheet;
use super::site::Site;
use crate::lateness::Excuse;
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 24,
    what: "5 dead waiters: the next holder after at most 6 s",
    stores: SERVERS,
    run,
};

const DEAD: u64 = 5;
const BOUND: Duration = Duration::from_secs(6);
const TTL: Duration = Duration::from_secs(60);
const LIMIT: Duration = Duration::from_secs(30);

fn run(ground: &Ground, sheet: &Sheet) {
    let total = rounds(ground, sheet, "queues", round);
    sheet.reached("dead waiters", DEAD * total, 200);
}

/// Makes five processes queue for a held lock, and kills or stops them. After the lock's release,
/// the next process in the queue must get the lock within `BOUND`.
fn round(crew: &Crew, site: &Site, sheet: &Sheet, number: u64) {
    let key = format!("queue-{number}");
    let queued = site.queues();
    let runtime = runtime(2);
    let ours = runtime.block_on(connect(&site.url()));
    let others = runtime.block_on(connect(&site.url()));
    let held = runtime.block_on(ours.lock(&*key).ttl(TTL).acquire());
    let held = held.expect("it is free");
    let lane = Lane::stays(&key, 20_000, 60_000).waits(60_000);
    let job = crew.job(&site.url(), vec![lane]);
    let mut waiters: Vec<_> = (0..DEAD).map(|_| crew.spawn(&job, None)).collect();
    wait::until("they queue", LIMIT, || queued(&key) == DEAD);
    let next = runtime.spawn(others.lock(&*key).ttl(TTL).wait(TTL).acquire());
    wait::until("another one queues", LIMIT, || queued(&key) == DEAD + 1);
    for waiter in &mut waiters {
        if number.is_multiple_of(2) {
            crew.fault("SIGKILL of a waiter");
            waiter.process().kill();
        } else {
            // The connection of the stopped process stays open. So when the lock becomes free, the
            // server notifies this process, which cannot react.
            crew.fault("SIGSTOP of a waiter");
            waiter.process().pause();
        }
    }
    let (released, excuse) = (now(), Excuse::begin());
    drop(held);
    let guard = runtime.block_on(next).expect("no panic");
    let took = Duration::from_nanos(now() - released);
    sheet.sections(2);
    sheet.release(took);
    sheet.check(guard.is_ok() && took <= BOUND + excuse.so_far(), || {
        format!("{key}: {guard:?} after {took:?}")
    });
}
