//! Requirement 4: when the store no longer answers, a loss is signalled at the time S, a margin
//! before the end D of the lease. If every worker of the user's runtime is also blocked, the loss
//! is still signalled before D.

use std::time::Duration;

use leasehold::__test::{deadline, now};
use leasehold::LockHandle;
use tokio::runtime::Runtime;

use super::ground::{Ground, Requirement, SERVERS, Size, connect, on_threads, runtime};
use super::sheet::Sheet;
use super::site::Site;
use super::span::nanos;
use crate::blocked::Blocked;
use crate::lateness::Excuse;
use crate::proxy::Mode;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 4,
    what: "loss is signalled by S; before D with all workers blocked",
    stores: SERVERS,
    run,
};

const TTL: Duration = Duration::from_millis(1_200);
/// The margin from S to D: max(50 ms, ttl/20).
const MARGIN: Duration = Duration::from_millis(60);
const LATE: Duration = Duration::from_millis(20);
/// Bound on the delay of the signal after S in the test suite, where other tests run at the same
/// time. It equals the margin, so the signal still comes before the end of the lease.
const LATE_BESIDE_OTHERS: Duration = MARGIN;
const WORKERS: usize = 2;

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(200, 8);
    let site = Site::start(ground.store);
    on_threads(4, total, &mut ground.random(4), |_, mut random, next| {
        while let Some(number) = next() {
            let proxy = site.proxy();
            let runtime = runtime(WORKERS);
            let pool = runtime.block_on(connect(&site.url_over(proxy.address())));
            let request = pool.lock(format!("loss-{number}")).ttl(TTL).watchdog();
            let guard = runtime.block_on(request.acquire()).expect("it is free");
            std::thread::sleep(random.duration(TTL));
            let blocked = (number % 2 == 1).then(|| Blocked::all(&runtime));
            sheet.faults("black hole", 1);
            proxy.set(Mode::BlackHole);
            observe(ground, sheet, &runtime, &guard.handle(), blocked.is_some());
            drop(blocked);
        }
    });
    sheet.sections(total);
    sheet.reached("losses", total, 200);
}

fn observe(ground: &Ground, sheet: &Sheet, runtime: &Runtime, handle: &LockHandle, blocked: bool) {
    let excuse = Excuse::begin();
    let reported = runtime.spawn({
        let handle = handle.clone();
        async move {
            handle.lost().await;
            now()
        }
    });
    let mut last = 0;
    // The deadline becomes zero when the engine reports the lease as lost.
    while let end @ 1.. = deadline(handle) {
        last = end;
        if now() > end + nanos(TTL) {
            break;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    let seen = now();
    let reported = if blocked {
        seen
    } else {
        runtime.block_on(reported).expect("no panic")
    };
    let late = Duration::from_nanos(reported.saturating_sub(last - nanos(MARGIN)));
    // Two threads must wake up: the thread that renews, and the thread that observes the loss. Each
    // of them may be late by the longest measured delay.
    let busy = excuse.longest() * 2;
    sheet.signal(late);
    if blocked {
        sheet.check(reported < last + nanos(busy), || {
            format!(
                "blocked: reported {late:?} after S, so after D; threads were woken {busy:?} late"
            )
        });
    } else {
        let bound = match ground.size {
            Size::Full => LATE,
            Size::Small => LATE_BESIDE_OTHERS,
        };
        sheet.check(late <= bound + busy, || {
            format!("reported {late:?} after S, while threads were woken {busy:?} late")
        });
    }
}
