//! The environment of a scenario: one history, and workers with or without a seeded bug.

use std::cell::Cell;
use std::time::Duration;

use leasehold::__test::now;

use crate::chaos::crew::{Crew, Hand};
use crate::chaos::job::{Job, Lane};
use crate::chaos::span::nanos;
use crate::oracle::{Note, Report};
use crate::probe::Probe;
use crate::proxy::{Mode, Proxy};
use crate::redis_probe::RedisProbe;
use crate::wait;

/// Time limit for an event that must happen.
pub(super) const LONG: Duration = Duration::from_secs(15);

/// The environment of a scenario.
pub(super) struct Scene {
    pub(super) crew: Crew,
    pub(super) bug: Option<&'static str>,
    /// Number of commands that a [`delayed`](Self::delayed) worker sends before its first call.
    set_up: Cell<u64>,
}

impl Scene {
    pub(super) fn play(crew: Crew, bug: Option<&'static str>, scenario: fn(&Self)) -> Report {
        let scene = Self {
            crew,
            bug,
            set_up: Cell::new(0),
        };
        scenario(&scene);
        scene.crew.report()
    }

    pub(super) fn job(&self, url: &str, lane: Lane) -> Job {
        self.crew.job(url, vec![lane])
    }

    /// Starts a worker, with the bug if this run of the scenario has it.
    pub(super) fn start(&self, url: &str, lane: Lane) -> Hand {
        self.crew.spawn(&self.job(url, lane), self.bug)
    }

    /// Starts a worker, with the bug if this run of the scenario has it. Each of the worker's
    /// requests and answers takes at least `least`.
    pub(super) fn delayed(&self, proxy: &Proxy, lane: Lane, least: Duration) -> Hand {
        let job = self.job(&proxy.url(), lane);
        self.crew.spawn_gated(job, self.bug, || {
            self.set_up.set(proxy.counts().commands);
            proxy.set(Mode::Delay {
                least,
                jitter: Duration::ZERO,
            });
        })
    }

    /// Returns the number of commands that a [`delayed`](Self::delayed) worker has sent before its
    /// first call.
    pub(super) fn set_up(&self) -> u64 {
        self.set_up.get()
    }

    /// Starts a worker, with the bug if this run of the scenario has it. Waits until the worker is
    /// inside its lock.
    pub(super) fn enter(&self, url: &str, lane: Lane) -> Hand {
        let entered = self.entered();
        let hand = self.start(url, lane);
        self.await_entries(entered + 1);
        hand
    }

    pub(super) fn entered(&self) -> u64 {
        self.crew.report().sections
    }

    pub(super) fn await_entries(&self, count: u64) {
        wait::until("a body begins", LONG, || self.entered() >= count);
    }

    pub(super) fn run(&self, url: &str, lane: Lane) {
        finish(self.start(url, lane));
    }

    /// Calls `take_away`, which removes the key, and notes that the body inside its lock must leave
    /// within 1.9 s. With a ttl of 3 s, the next renewal follows within a second, and detects the
    /// loss.
    pub(super) fn must_leave(&self, key: &str, take_away: impl FnOnce()) {
        let at = now();
        take_away();
        self.crew.note(&Note::MustLeave {
            key: key.to_owned(),
            at,
            by: at + nanos(Duration::from_millis(1_900)),
        });
    }

    pub(super) fn await_end(&self) {
        let ended = |note: &Note| matches!(note, Note::Leave { .. });
        assert!(
            self.crew.watch().wait_for(LONG, ended).is_some(),
            "no body ends"
        );
    }

    /// Waits until `key` is free after its holder's end, for at most twice `within`, and notes the
    /// result. If the key is still locked, the oracle reports a violation.
    pub(super) fn comes_free(&self, probe: &RedisProbe, key: &str, within: Duration) {
        let due = now();
        // The wait lasts at least `within`, because a delayed request may arrive until then and
        // lock the key again.
        wait::try_until(within * 2, || {
            now() > due + nanos(within) && !probe.exists(key)
        });
        let at = if probe.exists(key) { now() } else { due };
        self.free(key, due, at, within);
    }

    /// Calls `release`, after which the next holder should get the key `k`. Notes the time until
    /// this holder is inside.
    pub(super) fn is_entered(&self, release: impl FnOnce()) {
        const WITHIN: Duration = Duration::from_secs(4);
        let entered = self.entered();
        let due = now();
        release();
        wait::try_until(WITHIN * 2, || self.entered() > entered);
        self.free("k", due, now(), WITHIN);
    }

    pub(super) fn free(&self, key: &str, due: u64, at: u64, within: Duration) {
        self.crew.note(&Note::Free {
            key: key.to_owned(),
            due,
            at,
            within: nanos(within),
        });
    }
}

/// Waits until a worker has made all its calls and ended.
pub(super) fn finish(mut hand: Hand) {
    wait::until("the worker ends", LONG, || hand.has_ended());
}
