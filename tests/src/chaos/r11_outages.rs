//! Requirement 11: no lease is lost by an outage of two fifths of the ttl, at any time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::ground::{Ground, Requirement, SERVERS, connect, local_runtime, on_threads};
use super::sheet::Sheet;
use super::site::Site;
use super::store::Store;
use crate::lateness::Excuse;
use crate::proxy::{Mode, Proxy};

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 11,
    what: "outages of up to 0.4 ttl are survived",
    stores: SERVERS,
    run,
};

/// Returns a ttl that leaves enough time to renew a lease after an outage. PostgreSQL needs more
/// time, because it starts a process for the new connection and commits to the disk.
fn ttl(store: Store) -> Duration {
    match store {
        Store::Postgres => Duration::from_secs(4),
        _ => Duration::from_secs(2),
    }
}

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(500, 24);
    let ttl = ttl(ground.store);
    // At worst, the outage begins just before a renewal, a third of the ttl after the lease began.
    // About one fifth of the ttl is left from the end of the outage until the loss is signalled. In
    // this time the pool must connect and renew the lease.
    let spare = ttl / 5;
    let busy = AtomicU64::new(0);
    let site = Site::start(ground.store);
    // PostgreSQL starts a process for each new connection, so it gets fewer threads.
    let threads = match ground.store {
        Store::Postgres => ground.count(16, 8),
        _ => ground.count(32, 24),
    };
    on_threads(
        threads,
        total,
        &mut ground.random(11),
        |_, mut random, next| {
            let proxy = site.proxy();
            let runtime = local_runtime();
            let pool = runtime.block_on(connect(&site.url_over(proxy.address())));
            while let Some(number) = next() {
                let excuse = Excuse::begin();
                let request = pool.lock(format!("outage-{number}")).ttl(ttl).watchdog();
                let guard = runtime
                    .block_on(request.wait(ttl).acquire())
                    .expect("it is free");
                let phase = random.duration(ttl);
                std::thread::sleep(phase);
                let kind = begin(&proxy, number % 6);
                sheet.faults(&format!("outage: {kind}"), 1);
                std::thread::sleep(ttl * 2 / 5);
                proxy.pass();
                // A lost lease is detected before the end of this sleep.
                std::thread::sleep(ttl);
                let released = runtime.block_on(guard.release());
                if released.is_err() && spare < excuse.so_far() {
                    busy.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                sheet.check(released.is_ok(), || {
                    format!(
                        "the lease was lost by an outage ({kind}) after {phase:?}: {released:?}"
                    )
                });
            }
        },
    );
    let busy = busy.load(Ordering::Relaxed);
    sheet.sections(total);
    sheet.reached("outages", total - busy, 500);
    if 0 < busy {
        sheet.remark(format!(
            "{busy} leases lost while the machine woke its threads too late"
        ));
    }
    sheet.check(busy < total / 10, || "the machine is too busy".to_owned());
}

fn begin(proxy: &Proxy, kind: u64) -> &'static str {
    let (mode, name) = match kind {
        0 => (Mode::Stall, "stall"),
        1 => (Mode::BlackHole, "black hole"),
        2 => (Mode::SwallowReplies, "replies swallowed"),
        3 => (Mode::Garble, "garbled replies"),
        4 => {
            proxy.half_open();
            return "half open";
        }
        _ => (Mode::Refuse, "refused connections"),
    };
    proxy.set(mode);
    if mode == Mode::Refuse {
        proxy.cut();
    }
    name
}
