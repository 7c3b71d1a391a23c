//! Requirement 10: a table that checks fences refuses the writes of holders stopped until after the
//! end of their leases.
//!
//! Two processes hold all keys alternately. The holder is stopped until its leases have ended and
//! the other process has written. After the holder resumes, tasks spawned by its bodies still try
//! to write. With the in-process store there is only one process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::crew::{Crew, Hand, Watch};
use super::ground::{BOTH, Ground, Requirement, local_runtime, on_threads};
use super::job::{Form, Lane, Work};
use super::sheet::Sheet;
use super::shop::Shop;
use super::store::Store;
use crate::oracle::{Mode, Note};
use crate::server::Server;
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 10,
    what: "the SQL fence recipe rejects stale writers",
    stores: BOTH,
    run,
};

const TTL_MS: u64 = 800;
const TTL: Duration = Duration::from_millis(TTL_MS);
/// Number of keys, and so the number of holders that one SIGSTOP stops.
const KEYS: u64 = 20;
const LIMIT: Duration = Duration::from_secs(30);

fn run(ground: &Ground, sheet: &Sheet) {
    let stops = ground.count(1_000, 40) / KEYS;
    let resumed = AtomicU64::new(0);
    let lanes = ground.count(5, 1);
    on_threads(lanes, stops, &mut ground.random(10), |thread, _, next| {
        let crew = ground.crew(&format!("sql-{thread}"));
        let mut shifts = Shifts::start(&crew, ground.store, true);
        while next().is_some() {
            crew.fault("SIGSTOP of a worker");
            shifts.change();
        }
        drop(shifts);
        let report = crew.report();
        resumed.fetch_add(report.late_writes, Ordering::Relaxed);
        sheet.report(&report);
        if report.violations.is_empty() {
            crew.remove();
        }
    });
    sheet.reached("resumed holders", resumed.into_inner(), 1_000);
}

/// The two processes that hold all keys alternately, or the one process of the in-process store.
pub(super) struct Shifts {
    _server: Option<Server>,
    hands: Vec<Hand>,
    /// The index of the holding process.
    holder: usize,
    changes: u64,
    seen: Seen,
}

impl Shifts {
    /// Starts two processes with one Redis, or one process with the in-process store. The one
    /// process makes two calls for each key: while one of them holds the key, the other waits in
    /// the queue.
    pub(super) fn start(crew: &Crew, store: Store, checked: bool) -> Self {
        let server = (store == Store::Redis).then(Server::start);
        let url = server
            .as_ref()
            .map_or_else(|| "memory://sql".to_owned(), Server::url);
        let keys: Vec<_> = (0..KEYS).map(|number| format!("item-{number}")).collect();
        let (processes, copies) = match store {
            Store::Memory => (1, 2 * KEYS),
            _ => (2, KEYS),
        };
        let job = crew.job(&url, vec![sells(&keys, copies, checked)]);
        local_runtime().block_on(Shop::create(&job.ledger, &keys));
        let mut shifts = Self {
            _server: server,
            hands: vec![crew.spawn(&job, None)],
            holder: 0,
            changes: 0,
            seen: Seen::new(crew.watch()),
        };
        shifts
            .seen
            .wait_for("the first holders", |seen| seen.sold >= KEYS);
        while shifts.hands.len() < processes {
            shifts.hands.push(crew.spawn(&job, None));
        }
        shifts
    }

    /// Stops the holding process for longer than its leases last. If there is another process,
    /// resumes the stopped process only after the other process holds the keys. Waits until the
    /// resumed process has tried to write with its ended leases.
    pub(super) fn change(&mut self) {
        let stopped = self.holder;
        self.holder = (stopped + 1) % self.hands.len();
        let others = self.holder != stopped;
        self.changes += 1;
        let (sold, tried) = ((self.changes + 1) * KEYS, self.changes * KEYS);
        let next = |seen: &Seen| seen.sold >= sold;
        self.hands[stopped].process().pause();
        std::thread::sleep(TTL);
        if others {
            self.seen.wait_for("the next holders", next);
        }
        self.hands[stopped].process().resume();
        self.seen.wait_for("the resumed holders' writes", |seen| {
            next(seen) && seen.tried >= tried
        });
    }
}

fn sells(keys: &[String], copies: u64, checked: bool) -> Lane {
    Lane {
        keys: keys.to_vec(),
        in_turn: true,
        copies: u32::try_from(copies).unwrap_or(u32::MAX),
        ttl_ms: TTL_MS,
        wait_ms: 60_000,
        watchdog: true,
        mode: Mode::Alone,
        form: Form::Plain,
        fails: false,
        work: Work::Sell { checked },
        times: 0,
        drop_one_in: 0,
        block_one_in: 0,
    }
}

/// Counts of the writes in the history so far.
struct Seen {
    watch: Watch,
    /// Number of writes during a lease.
    sold: u64,
    /// Number of writes after the end of a lease, accepted or refused.
    tried: u64,
}

impl Seen {
    fn new(watch: Watch) -> Self {
        Self {
            watch,
            sold: 0,
            tried: 0,
        }
    }

    fn wait_for(&mut self, what: &str, enough: impl Fn(&Self) -> bool) {
        wait::until(what, LIMIT, || {
            while let Some(note) = self.watch.next_note() {
                if let Note::Write { at, deadline, .. } = note {
                    let count = if at < deadline {
                        &mut self.sold
                    } else {
                        &mut self.tried
                    };
                    *count += 1;
                }
            }
            enough(self)
        });
    }
}
