//! Which caller looks for the answers, and who else hears of them.

use std::sync::Arc;
use std::time::Duration;

use super::super::core::Load;
use super::super::lookout;
use super::super::ticket::TicketId;
use super::Machine;
use crate::clock::Instant;
use crate::store::Attention;

/// So much later than a caller was chosen to look, while the engine's task hears of nothing, it is time for that task to look
/// after it. It may be late by the tick of its runtime's timers, and by one more that it is spared a call for.
const WATCH: Duration = Duration::from_millis(2);

impl Machine {
    /// Whose caller looks for the answers, and until when it [goes on](Self::look) without hearing anything.
    pub(in crate::engine) fn asker(&self) -> Option<(TicketId, Instant)> {
        self.asker.zip(self.looks_until())
    }

    pub(super) fn looks_until(&self) -> Option<Instant> {
        self.lookout.until().or(self.spin.until())
    }

    /// The engine's task looks after the caller that looks, when that is due.
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
            let begins = self.lookout.until().is_none() && self.suits_lookout();
            if let Some(asker) = self.asker
                && begins
                && self.lookout.is_wanted(unsent + sent)
            {
                self.lookout.begins(now);
                self.entrust(asker, own, Attention::Caller);
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::task::Waker;

    use super::super::super::fixtures::{
        Remote, Silent, asks, asks_for, counting, machine_on, order,
    };
    use super::super::super::inbox::Inbox;
    use super::super::super::lookout::AT_A_TIME;
    use super::super::super::shared::tell;
    use super::super::super::ticket::Order;
    use super::super::LIMIT;
    use super::*;

    fn machine() -> Machine {
        machine_on(Silent)
    }

    const MANY: usize = 400;

    /// Many who have asked for a lock of their own, one of whom looks; and how many of them have been told. All answers have come.
    fn crowd() -> (Machine, Inbox, impl Fn() -> usize) {
        crowd_of(MANY, Remote::new())
    }

    /// The same of so many, who have asked `store`.
    fn crowd_of(many: usize, store: Remote) -> (Machine, Inbox, impl Fn() -> usize) {
        let answers = Arc::clone(&store.answers);
        let mut machine = machine_on(store);
        let inbox = Inbox::default();
        let woken: Vec<_> = (1..=many as u64)
            .map(|number| asks(&inbox, number))
            .collect();
        machine.help(&inbox, Some(TicketId(1)));
        assert_eq!(asker(&machine), Some(1));
        answers.store(true, Ordering::SeqCst);
        let told = move || woken.iter().filter(|woken| 0 < woken()).count();
        (machine, inbox, told)
    }

    /// Fails if so many are told for one poll that they do not fit into the queue of the thread that tells them, or if those that are left
    /// over are forgotten.
    #[tokio::test(start_paused = true)]
    async fn of_a_crowd_few_are_told_for_one_poll() {
        let (mut machine, _, told) = crowd();
        for round in 1..=3 {
            let before = told();
            machine.look();
            tell(machine.take_news());
            let more = told() - before;
            assert!((1..=AT_A_TIME + 1).contains(&more), "{more} in {round}");
        }
        while asker(&machine).is_some() {
            let before = told();
            machine.look();
            tell(machine.take_news());
            assert!(before < told(), "somebody looks for nothing");
        }
        assert_eq!(told(), MANY);
    }

    /// Fails if the engine's task, which tells them from outside of their runtime, tells more, or hears of nothing after a look.
    #[tokio::test(start_paused = true)]
    async fn the_engines_task_leaves_a_crowd_to_the_caller_that_looks() {
        let (mut machine, inbox, told) = crowd();
        machine.turn(&inbox, false, Waker::noop());
        tell(machine.take_news());
        assert!((1..=AT_A_TIME + 1).contains(&told()));
        assert!(asker(&machine).is_some());
        machine.look();
        let (task, woken) = counting();
        machine.home.register(&task);
        machine.waker.wake_by_ref();
        assert_eq!(woken(), 1);
    }

    /// Fails if an answer is left lying that says that what is due is not.
    #[tokio::test(start_paused = true)]
    async fn all_that_has_come_is_heard_before_it_is_decided_what_is_due() {
        let many = 3 * LIMIT;
        let (mut machine, inbox, told) = crowd_of(many, Remote::new());
        let soon = lookout::longest_absence() / 4;
        let order = Order {
            wait: soon,
            ..order("soon")
        };
        let (command, _) = asks_for(1 + many as u64, order);
        assert!(inbox.put(command));
        machine.help(&inbox, None);
        tokio::time::advance(soon).await;
        machine.turn(&inbox, true, Waker::noop());
        tell(machine.take_news());
        assert_eq!(told(), many);
    }

    /// Fails if the callers of a runtime that is blocked are told by and by.
    #[tokio::test(start_paused = true)]
    async fn all_that_has_come_is_heard_when_nobody_looks_who_was_to() {
        let (mut machine, inbox, told) = crowd();
        // The server is known to be quick.
        machine.look();
        for all in [false, true] {
            tokio::time::advance(lookout::longest_absence()).await;
            machine.turn(&inbox, false, Waker::noop());
            tell(machine.take_news());
            assert_eq!((asker(&machine).is_none(), told() == MANY), (all, all));
        }
    }

    /// Fails if answers that have come and were left over are left lying when nobody looks any more: nothing tells of them again.
    #[tokio::test(start_paused = true)]
    async fn what_was_left_over_is_for_the_engines_task_when_nobody_looks() {
        let (mut machine, inbox, told) = crowd();
        machine.look();
        let now = machine.clock.now();
        let sleeps = machine.looks_at(now);
        machine.home.sleeps(sleeps);
        assert!(!machine.calls(now), "a caller looks");
        machine.lookout.gives_up();
        machine.unattend();
        assert!(machine.calls(now));
        while told() < MANY {
            let before = told();
            machine.turn(&inbox, false, Waker::noop());
            tell(machine.take_news());
            assert!(before < told(), "nobody has heard of the others");
            // A task has so many polls.
            tokio::task::yield_now().await;
        }
    }

    /// Fails if what is submitted while answers lie is not sent: a store sends when it is polled.
    #[tokio::test(start_paused = true)]
    async fn what_is_submitted_while_answers_lie_is_sent() {
        let store = Remote::new();
        let unsent = Arc::clone(&store.unsent);
        let (mut machine, inbox, _told) = crowd_of(MANY, store);
        machine.turn(&inbox, false, Waker::noop());
        assert!(machine.has_events(), "the task has left some");
        let last = MANY as u64 + 100;
        let _more: Vec<_> = (MANY as u64 + 1..=last)
            .map(|number| asks(&inbox, number))
            .collect();
        machine.help(&inbox, Some(TicketId(last)));
        assert_eq!(machine.core.load().unsent, 0);
        assert!(!unsent.load(Ordering::SeqCst));
    }

    fn asker(machine: &Machine) -> Option<u64> {
        machine.asker().map(|(ticket, _)| ticket.0)
    }

    /// Fails if a caller is chosen that sleeps and nobody tells it: all would wait until the engine's task looks after them.
    #[tokio::test(start_paused = true)]
    async fn a_caller_that_sleeps_is_told_that_it_is_to_look() {
        let (mut machine, inbox) = (machine(), Inbox::default());
        let woken = asks(&inbox, 1);
        machine.help(&inbox, None);
        tell(machine.take_news());
        assert_eq!((asker(&machine), woken()), (Some(1), 1));
    }

    /// Fails if a caller that is about to look anyway is woken for it, or another is.
    #[tokio::test(start_paused = true)]
    async fn a_caller_that_is_awake_looks_for_the_others() {
        let (mut machine, inbox) = (machine(), Inbox::default());
        let woken: Vec<_> = (1..=5).map(|number| asks(&inbox, number)).collect();
        machine.help(&inbox, Some(TicketId(3)));
        tell(machine.take_news());
        assert_eq!(asker(&machine), Some(3));
        assert!(woken.iter().all(|woken| woken() == 0));
        assert_eq!(machine.core.load().unsent, 0);
    }

    /// Fails if each caller sends what there is while most of those that have been told have not asked yet.
    #[tokio::test(start_paused = true)]
    async fn what_few_ask_waits_for_the_others_until_somebody_looks() {
        let (mut machine, inbox) = (machine(), Inbox::default());
        assert_eq!(machine.lookout.part(64), 32, "there were many a moment ago");
        for number in 1..=5 {
            let _ = asks(&inbox, number);
            machine.help(&inbox, Some(TicketId(number)));
        }
        assert_eq!((machine.core.load().unsent, asker(&machine)), (4, Some(1)));
        machine.look();
        assert_eq!((machine.core.load().unsent, asker(&machine)), (0, Some(1)));
    }

    /// Fails if what is too little for a look to send at once stays.
    #[tokio::test(start_paused = true)]
    async fn little_is_left_to_the_next_look_and_sent_by_it() {
        let (mut machine, inbox) = (machine(), Inbox::default());
        let woken: Vec<_> = (1..=64).map(|number| asks(&inbox, number)).collect();
        machine.help(&inbox, Some(TicketId(64)));
        let _ = asks(&inbox, 65);
        machine.help(&inbox, Some(TicketId(65)));
        assert_eq!((machine.core.load().unsent, asker(&machine)), (1, Some(64)));
        while 0 < machine.core.load().unsent {
            assert!(asker(&machine).is_some(), "nobody looks");
            tokio::time::advance(Duration::from_micros(20)).await;
            machine.look();
        }
        assert!(woken.iter().all(|woken| woken() == 0));
    }
}
