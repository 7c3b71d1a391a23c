//! One caller that looks for the answers to all.
//!
//! Where requests of several callers are under way, one of those who wait looks for the answers, tells the others, and takes along what they ask
//! next. When it has its own answer another one goes on. Mostly they are tasks of one runtime, so that nobody has to be woken by
//! the system but the server: with 64 tasks, each with a key of its own, nearly half of the client's time went by in the kernel, where threads are woken, and with 16
//! tasks they got half as much done as by hand (`scripts/bench --rows distinct_16,distinct_64`). The engine's thread rests meanwhile
//! and is not told of answers: to be woken for each, in vain, took it a fifth of a processor. It looks after that caller every millisecond or two, and
//! takes over when it stays away: its own thread may be at something else.

use std::time::Duration;

use super::quickness::Quickness;
use crate::clock::Instant;

/// For so long somebody looks without hearing anything.
const LONGEST: Duration = Duration::from_micros(300);

/// Silence that is usually longer than this is not worth looking through: the server is across a network, or has a lot to do.
const WORTHWHILE: Duration = Duration::from_micros(150);

/// After so much silence what is to be sent does not wait for more: of what is under way, something may never be answered.
const QUIET: Duration = Duration::from_micros(250);

/// When whoever looks has not given up so long after its time, it is taken to be away.
const GRACE: Duration = Duration::from_micros(200);

/// With fewer under way, each caller may as well be told by itself: those who pass a lock on among processes have two at a time, and
/// the other processes need the processors.
const FEW: usize = 4;

/// With more under way, who looks for all does not take all answers at once.
const CROWD: usize = 128;

/// But so many for each poll of the store, and then lets those who are told of them go first. They stand in the queue of one thread of their runtime.
/// In tokio that has room for 256 tasks; when it is full, half of it goes to a queue of all threads, where a task waits for much longer.
pub(super) const AT_A_TIME: usize = 24;

/// Half of what is under way leaves together: the server has the one half to do while callers hear of the other. Who sends less, because the others
/// have not asked yet, pays a system call and a script for it, and is answered so soon that the others come too late again: 64 tasks settled
/// at 5 requests together, where they have 12 at other times, and at a third of the pairs a second.
const PARTS: usize = 2;

/// How much one occasion weighs on which fewer are under way.
const SLOWLY: usize = 1024;

/// When somebody looks for the answers of all.
#[derive(Debug)]
pub(super) struct Lookout {
    allowed: bool,
    /// Since when nothing has been heard, while somebody looks.
    silent: Option<Instant>,
    server: Quickness,
    /// How many have been under way lately, rather too many than too few, in [`SLOWLY`]ths.
    usual: usize,
}

impl Lookout {
    /// Not allowed, nobody ever looks.
    pub(super) fn new(allowed: bool) -> Self {
        Self {
            allowed,
            silent: None,
            server: Quickness::new(WORTHWHILE),
            usual: 0,
        }
    }

    /// With so many requests under way: whether somebody is to look, or to go on with it. To be asked on each occasion, as some of
    /// them are let go by.
    pub(super) fn is_wanted(&mut self, under_way: usize) -> bool {
        if self.silent.is_some() {
            return true;
        }
        if !self.allowed || under_way < FEW {
            return false;
        }
        self.server.occasion();
        self.server.is_worthwhile()
    }

    /// With so many under way: how many answers a poll of the store takes, if there is a bound.
    pub(super) fn most(&self, under_way: usize) -> Option<usize> {
        let crowd = self.silent.is_some() && CROWD < under_way;
        crowd.then_some(AT_A_TIME)
    }

    /// With so many under way: how many of them are worth a request of their own, while others are likely to ask in a moment.
    pub(super) fn part(&mut self, under_way: usize) -> usize {
        let under_way = SLOWLY * under_way;
        let less = self.usual.saturating_sub(under_way) / SLOWLY;
        self.usual = under_way.max(self.usual - less);
        self.usual / SLOWLY / PARTS
    }

    /// Somebody begins to look, or goes on for another who did.
    pub(super) fn begins(&mut self, now: Instant) {
        self.silent = Some(now);
    }

    /// Something has come.
    pub(super) fn hears(&mut self, now: Instant) {
        if let Some(silent) = &mut self.silent {
            let silence = now.since(std::mem::replace(silent, now));
            self.server.learn(silence);
            self.server.tried();
        }
    }

    /// Whether nothing has come for so long that the server may have nothing to do.
    pub(super) fn is_quiet(&self, now: Instant) -> bool {
        self.silent.is_some_and(|silent| silent + QUIET <= now)
    }

    /// Nobody looks any more.
    pub(super) fn ends(&mut self) {
        self.silent = None;
    }

    /// The same, and it was for nothing.
    pub(super) fn gives_up(&mut self) {
        if self.silent.take().is_some() {
            self.server.learn_too_long();
            self.server.tried();
        }
    }

    /// Until when whoever looks goes on without hearing anything.
    pub(super) fn until(&self) -> Option<Instant> {
        Some(self.silent? + LONGEST)
    }
}

/// When whoever was to look for so long is taken to be away.
pub(super) fn away_at(until: Instant) -> Instant {
    until + GRACE
}

/// How long whoever has just heard something may be at something else before others take over.
pub(super) fn longest_absence() -> Duration {
    LONGEST + GRACE
}

#[cfg(test)]
mod tests {
    use super::super::quickness::SELDOM;
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);

    #[test]
    fn it_goes_on_while_something_is_heard() {
        let mut lookout = Lookout::new(true);
        assert!(!lookout.is_wanted(FEW - 1) && lookout.is_wanted(FEW));
        let start = Instant::from_nanos(1);
        lookout.hears(start);
        assert_eq!(lookout.until(), None, "nobody looks");
        lookout.begins(start);
        assert_eq!(lookout.until(), Some(start + LONGEST));
        lookout.hears(start + 100 * MICRO);
        assert_eq!(lookout.until(), Some(start + 100 * MICRO + LONGEST));
        lookout.ends();
        assert_eq!(lookout.until(), None);
        assert_eq!(away_at(start + LONGEST), start + longest_absence());
    }

    #[test]
    fn where_it_has_been_for_nothing_it_is_tried_seldom() {
        let mut lookout = Lookout::new(true);
        let start = Instant::from_nanos(1);
        for _ in 0..32 {
            lookout.begins(start);
            lookout.gives_up();
        }
        let mut tries = 0;
        for _ in 0..10 * SELDOM {
            if lookout.is_wanted(FEW) {
                tries += 1;
                lookout.begins(start);
                lookout.gives_up();
            }
        }
        assert_eq!(tries, 10);
        lookout.begins(start);
        lookout.hears(start + MICRO);
        lookout.ends();
        assert!(lookout.is_wanted(FEW), "an answer shows that it can be");
    }

    #[test]
    fn half_of_what_is_usually_under_way_leaves_together() {
        let mut lookout = Lookout::new(true);
        assert_eq!(lookout.part(1), 0, "nothing to wait for");
        assert_eq!(lookout.part(64), 32);
        assert_eq!(lookout.part(10), 31, "the others have not asked yet");
        for _ in 0..8 * SLOWLY {
            lookout.part(10);
        }
        assert_eq!(lookout.part(10), 5, "there are no others");
    }

    #[test]
    fn while_somebody_looks_for_a_crowd_few_answers_are_taken_at_a_time() {
        let mut lookout = Lookout::new(true);
        assert_eq!(lookout.most(CROWD + 1), None);
        lookout.begins(Instant::from_nanos(1));
        assert_eq!(lookout.most(CROWD), None);
        assert_eq!(lookout.most(CROWD + 1), Some(AT_A_TIME));
        assert!(lookout.is_wanted(1), "it goes on");
        assert!(!Lookout::new(false).is_wanted(CROWD));
    }
}
