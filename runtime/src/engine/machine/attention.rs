//! Which caller looks for the answers, and who else hears of them.

use std::sync::Arc;
use std::time::Duration;

use super::super::core::Load;
use super::super::lookout;
use super::super::ticket::TicketId;
use super::Machine;
use crate::clock::Instant;
use crate::store::Attention;

/// So much later than a caller began to look for an answer alone it is time for the engine's task to look after it: until then that
/// task hears of nothing. It may be late by the tick of its runtime's timers, and by one more that it is spared a call for.
const WATCH: Duration = Duration::from_millis(2);

impl Machine {
    /// Whose caller looks for the answers, and until when it [goes on](Self::look) without hearing anything.
    pub(in crate::engine) fn asker(&self) -> Option<(TicketId, Instant)> {
        self.asker.zip(self.looks_until())
    }

    pub(super) fn looks_until(&self) -> Option<Instant> {
        self.lookout.until().or(self.spin.until())
    }

    /// The engine's task looks after callers that look alone, when that is due.
    pub(super) fn watch(&mut self, now: Instant) {
        if self.watch_at.is_none_or(|at| now < at) {
            return;
        }
        self.watch_at = None;
        match self.asker {
            Some(_) => self.attend(self.asker, self.attention),
            None => self.attend(None, Attention::Runtime),
        }
    }

    /// Whose caller looks for the answers from now on, and who hears of them.
    pub(super) fn attend(&mut self, asker: Option<TicketId>, attention: Attention) {
        // A copy of the process that `fork` has made shares the sockets' bells with it.
        if attention != self.attention && std::process::id() == self.process {
            self.store.attend(attention);
        }
        self.attention = attention;
        self.asker = asker;
        if attention == Attention::Caller {
            self.watch_at = Some(self.clock.now() + WATCH);
        }
    }

    /// `asker` looks from now on; it is told so, unless it is the caller that this thread is.
    pub(super) fn entrust(&mut self, asker: TicketId, own: Option<TicketId>, attention: Attention) {
        if own != Some(asker) {
            self.news.asker = self.slots.get(&asker).map(Arc::clone);
        }
        self.attend(Some(asker), attention);
    }

    /// Others wait besides the caller that looks alone: if that stays away they must not wait for it.
    pub(super) fn share_attention(&mut self) {
        let for_all = self.asker.is_some() && self.lookout.until().is_some();
        if self.attention != Attention::Caller || for_all {
            return;
        }
        if self.asker.is_some() && self.suits_lookout() {
            self.attend(self.asker, Attention::Both);
        } else {
            self.attend(None, Attention::Runtime);
        }
    }

    /// Whether one caller does well to look for the answers to all: not where the servers need the processor that it takes.
    pub(super) fn suits_lookout(&self) -> bool {
        self.store.reads_anywhere() && !self.store.asks_several()
    }

    /// Nobody looks for the answers any more.
    pub(super) fn unattend(&mut self) {
        self.lookout.ends();
        if self.attention == Attention::Caller && self.store.is_settled() {
            // The next caller takes them in on its way, without waking the engine's thread for them.
            self.asker = None;
        } else {
            self.attend(None, Attention::Runtime);
        }
    }

    /// Sees to it that one of those who wait for an answer looks for all, if that is worth while, and that nobody who has an answer does.
    /// `own`: as for [`help`](Self::help).
    pub(super) fn appoint(&mut self, now: Instant, own: Option<TicketId>) {
        self.replace_absent(now);
        let Load { unsent, sent } = self.core.load();
        if self.asker.is_some_and(|asker| self.core.is_asking(asker)) {
            // It began alone, and would soon give up.
            if self.attention == Attention::Both
                && self.lookout.until().is_none()
                && self.lookout.is_wanted(unsent + sent)
            {
                self.lookout.begins(now);
                self.attend(self.asker, Attention::Caller);
            }
            return;
        }
        let wanted = self.suits_lookout() && self.lookout.is_wanted(unsent + sent);
        // Whoever is awake need not be woken.
        let own = own.filter(|own| self.core.is_asking(*own));
        let next = if wanted {
            own.or_else(|| self.next_asker())
        } else {
            None
        };
        if let Some(next) = next {
            self.lookout.begins(now);
            self.entrust(next, own, Attention::Caller);
        } else if self.asker.is_some() {
            self.unattend();
        }
    }

    /// Somebody who waits for an answer and can be woken to look.
    fn next_asker(&self) -> Option<TicketId> {
        self.core.last_askers().find(|next| {
            let slot = self.slots.get(next);
            slot.is_some_and(|slot| slot.is_waited_for())
        })
    }

    /// Gives up waiting for whoever was to look and does not.
    pub(super) fn replace_absent(&mut self, now: Instant) {
        let absent = |until| lookout::away_at(until) <= now;
        if self.asker.is_some() && self.looks_until().is_none_or(absent) {
            self.lookout.gives_up();
            self.unattend();
        }
    }
}
