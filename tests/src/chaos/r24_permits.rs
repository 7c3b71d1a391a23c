//! Requirement 24 for permits: there are never more holders than permits, and no call starves. The
//! permits of killed processes become free again.

use std::time::Duration;

use leasehold::{LockError, LockPool};

use super::calls::PLACES;
use super::ending::end_all;
use super::ground::{Ground, Requirement, SERVERS, connect, local_runtime};
use super::job::{Lane, Work};
use super::mortals::{live, must_be_fair, record};
use super::sheet::Sheet;
use super::site::Site;
use crate::lateness::Excuse;
use crate::oracle::Mode;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 24,
    what: "permits under kills: never more holders than places, and all places come back",
    stores: SERVERS,
    run,
};

const KEY: &str = "rate";
/// The longest ttl in `lanes`.
const TTL: Duration = Duration::from_secs(2);
const BOUND: Duration = Duration::from_secs(6);

fn run(ground: &Ground, sheet: &Sheet) {
    let crew = ground.crew("permits");
    let site = Site::start(ground.store);
    let time = Duration::from_secs(ground.count(60, 6));
    let excuse = Excuse::begin();
    let mut random = ground.random(242);
    let hands = live(&crew, &site.url(), &lanes(), time, &mut random);
    end_all(sheet, hands);
    let runtime = local_runtime();
    let pool = runtime.block_on(connect(&site.url()));
    let back = runtime.block_on(places(&pool));
    sheet.check(back == Ok(()), || {
        format!("places did not come back: {back:?}")
    });
    site.all_free(&crew, TTL);
    must_be_fair(&crew, KEY, BOUND, excuse);
    let report = crew.report();
    record(sheet, &report);
    sheet.reached("seconds of permits", time.as_secs(), 60);
    if report.violations.is_empty() {
        crew.remove();
    }
}

/// Returns the lanes (groups of callers) of one of four processes, with short and long leases. All
/// four processes together have twenty callers.
fn lanes() -> Vec<Lane> {
    let lane = |copies, ttl_ms, pause_us| Lane {
        copies,
        ttl_ms,
        work: Work::Read { pause_us },
        times: 0,
        ..Lane::stays(KEY, 0, 0)
            .held_as(Mode::Place(PLACES))
            .waits(20_000)
    };
    vec![
        lane(2, 400, 20_000),
        lane(1, 2_000, 200_000),
        lane(2, 1_000, 10_000).watched(),
    ]
}

/// Takes all permits, which are free after the leases of the killed processes have ended. A further
/// call must then be refused.
async fn places(pool: &LockPool) -> Result<(), LockError> {
    let place = || pool.lock(KEY).ttl(TTL * 5).permits(PLACES);
    let mut all = Vec::new();
    for _ in 0..PLACES {
        all.push(place().wait(TTL * 2).acquire().await?);
    }
    match place().acquire().await {
        Err(LockError::Contended { .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(guard) => Err(LockError::lost("one place too many", guard.fence())),
    }
}
