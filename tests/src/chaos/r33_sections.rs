//! A process of version 0.1.0 (the "earlier version"), which takes one lock repeatedly. It notes
//! each body inside the lock (a "section") in the history, which the oracle checks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold::__test::now;

use super::crew::Crew;
use super::span::nanos;
use crate::earlier_version::{EarlierProcess, Lease, Want};
use crate::oracle::{Mode, Note};
use crate::random::Random;

/// Number of concurrent calls that a process of the mode `Alone` simulates.
const CALLS: u32 = 4;
/// Largest number of times that a process passes a lease from call to call while another process
/// waits.
const MOST_HAND_OVERS: u32 = 16;
/// The longest duration of a section.
const STAY: Duration = Duration::from_millis(3);
/// Frequencies of rare steps. On average, one in `RENEWED` sections renews its lease. One in `KEPT`
/// exclusive leases ends with a release that keeps the key locked for `KEEP`.
const RENEWED: u64 = 20;
const KEPT: u64 = 40;
/// Time for which a release with `keep` leaves the key locked.
const KEEP: Duration = Duration::from_millis(20);

static NEXT_HOLDER: AtomicU64 = AtomicU64::new(0);

/// A process of the earlier version, which takes one key again and again.
pub(super) struct Earlier<'a> {
    crew: &'a Crew,
    process: EarlierProcess,
    /// The key's name in the history.
    key: String,
    mode: Mode,
    want: Want,
    random: Random,
    /// Time at which each waiting call of the process requested the lock, the oldest first.
    asked: VecDeque<u64>,
    sections: u64,
}

impl<'a> Earlier<'a> {
    pub(super) fn connect(crew: &'a Crew, url: &str, key: &str, mode: Mode, ttl: Duration) -> Self {
        let wire = format!("lock:{key}");
        let (want, calls) = match mode {
            Mode::Alone => (Want::alone(&wire, ttl), CALLS),
            Mode::Reader => (Want::share(&wire, ttl, 0), 1),
            Mode::Place(most) => (Want::share(&wire, ttl, most), 1),
        };
        Self {
            crew,
            process: EarlierProcess::connect(url, "lock"),
            key: key.to_owned(),
            mode,
            want: Want {
                spare: calls - 1,
                ..want
            },
            random: Random::new(now()),
            asked: (0..calls).map(|_| now()).collect(),
            sections: 0,
        }
    }

    /// Takes the key repeatedly until `ending` is true. Returns the number of sections.
    pub(super) fn work(&mut self, ending: &AtomicBool, wait: Duration) -> u64 {
        let mut next = None;
        while !ending.load(Ordering::Relaxed) {
            let Some(mut lease) = next.take().or_else(|| self.process.take(&self.want, wait))
            else {
                self.refused(wait);
                continue;
            };
            self.tenure(&mut lease, ending);
            next = self.give_back(&lease, ending, wait);
        }
        if let Some(lease) = next {
            self.release(&lease, None);
        }
        self.sections
    }

    /// Runs one section after another on the same lease, which the process passes from call to call
    /// (a "tenure").
    fn tenure(&mut self, lease: &mut Lease, ending: &AtomicBool) {
        let mut wanted = lease.wanted.then(now);
        let mut hand_overs = 0;
        loop {
            self.section(lease);
            if wanted.is_none() && self.process.is_wanted(&self.want.key) {
                (wanted, hand_overs) = (Some(now()), 0);
            }
            let turn = wanted.is_none_or(|since| {
                hand_overs < MOST_HAND_OVERS && now() < since + nanos(self.want.ttl / 4)
            });
            let enough = now() + nanos(self.want.ttl / 2) <= lease.soft_end(self.want.ttl);
            if lease.spare == 0 || !turn || !enough || ending.load(Ordering::Relaxed) {
                return;
            }
            lease.fence += 1;
            lease.spare -= 1;
            hand_overs += 1;
        }
    }

    fn section(&mut self, lease: &mut Lease) {
        let at = now();
        if lease.deadline <= at {
            return;
        }
        let holder =
            u64::from(std::process::id()) << 32 | NEXT_HOLDER.fetch_add(1, Ordering::Relaxed);
        let asked = self.asked.pop_front().unwrap_or(at);
        self.crew.note(&Note::Enter {
            key: self.key.clone(),
            holder,
            fence: Some(lease.fence),
            asked,
            at,
            sent: lease.sent,
            deadline: lease.deadline,
            mode: self.mode,
            within: None,
        });
        self.stay(lease);
        self.crew.note(&Note::Leave {
            key: self.key.clone(),
            holder,
            at: now(),
            deadline: lease.deadline,
            keeps: None,
        });
        self.sections += 1;
        self.asked.push_back(now());
    }

    /// Stays inside the lock for a random time. One in `RENEWED` sections then renews the lease.
    fn stay(&mut self, lease: &mut Lease) {
        std::thread::sleep(self.random.duration(STAY));
        if self.random.below(RENEWED) == 0 {
            let sent = now();
            let kept = self.process.renew(&self.want, &lease.token);
            let lengthened = sent.saturating_sub(lease.sent);
            if kept {
                lease.sent += lengthened;
                lease.deadline += lengthened;
            } else if sent < lease.deadline {
                self.lost();
            }
        }
    }

    /// Ends a lease. One request usually releases an exclusive lock and requests it for the next
    /// call. Otherwise the lock is only released, and may stay locked for `KEEP`.
    fn give_back(&mut self, lease: &Lease, ending: &AtomicBool, wait: Duration) -> Option<Lease> {
        let kept = self.random.below(KEPT) == 0;
        if !self.mode.is_alone() || kept || ending.load(Ordering::Relaxed) {
            self.release(lease, kept.then_some(KEEP));
            return None;
        }
        let before = now();
        let (found, next) = self.process.take_again(&self.want, &lease.token, wait);
        if !found && before < lease.deadline {
            self.lost();
        }
        if next.is_none() {
            self.refused(wait);
        }
        next
    }

    fn release(&mut self, lease: &Lease, keep: Option<Duration>) {
        let before = now();
        if !self.process.release(&self.want, &lease.token, keep) && before < lease.deadline {
            self.lost();
        }
    }

    /// Notes that the lock was lost before the end of its lease.
    fn lost(&self) {
        self.crew.note(&Note::Lost {
            key: self.key.clone(),
            at: now(),
        });
    }

    fn refused(&mut self, wait: Duration) {
        let asked = self.asked.front().copied().unwrap_or_else(now);
        self.crew.note(&Note::Refused {
            key: self.key.clone(),
            asked,
            at: now(),
            wait: nanos(wait),
        });
    }
}
