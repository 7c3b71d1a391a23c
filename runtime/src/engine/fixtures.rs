//! What several tests need.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;

use tokio::task::consume_budget;
use tokio::time::advance;

use super::core::Limits;
use super::inbox::{Command, Inbox};
use super::machine::Machine;
use super::slot::Slot;
use super::ticket::{Order, TicketId};
use crate::clock::Clock;
use crate::lease::Terms;
use crate::store::memory::{MemoryStore, Space};
use crate::store::{Attention, LockStore, Request, StoreEvent};
use crate::token::{Nonce, Token};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A waker, and how often it has been woken.
pub(super) fn counting() -> (Waker, impl Fn() -> usize) {
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    (waker, move || count.0.load(Ordering::SeqCst))
}

/// A server that may be read on any thread, and has not answered yet.
pub(super) struct Silent;

impl LockStore for Silent {
    fn submit(&mut self, _: &mut Vec<Request>) {}

    fn poll_event(&mut self, _: &mut Context<'_>) -> Poll<StoreEvent> {
        Poll::Pending
    }

    fn works_anywhere(&self) -> bool {
        true
    }

    fn reads_anywhere(&self) -> bool {
        true
    }
}

/// A server that may be read on any thread, and answers when it is told to, as far as the runtime's budget goes.
pub(super) struct Remote {
    pub(super) inner: MemoryStore,
    pub(super) answers: Arc<AtomicBool>,
    /// Whether it has not been polled since something was submitted.
    pub(super) unsent: Arc<AtomicBool>,
    /// How long each poll takes, by the test's time.
    pub(super) takes: Duration,
    /// Whether the runtime has not looked for what has come: only who looks for itself sees it.
    pub(super) unseen: Arc<AtomicBool>,
    pub(super) attention: Attention,
}

impl Remote {
    pub(super) fn new() -> Self {
        Self {
            inner: MemoryStore::new(Space::private(Clock::tokio())),
            answers: Arc::default(),
            unsent: Arc::default(),
            takes: Duration::ZERO,
            unseen: Arc::default(),
            attention: Attention::Runtime,
        }
    }
}

impl LockStore for Remote {
    fn submit(&mut self, requests: &mut Vec<Request>) {
        self.unsent.store(true, Ordering::SeqCst);
        self.inner.submit(requests);
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent> {
        if !self.takes.is_zero() {
            let _ = pin!(advance(self.takes)).poll(cx);
        }
        // As sockets and channels are.
        ready!(pin!(consume_budget()).poll(cx));
        self.unsent.store(false, Ordering::SeqCst);
        let unseen = self.attention == Attention::Runtime && self.unseen.load(Ordering::SeqCst);
        if self.answers.load(Ordering::SeqCst) && !unseen {
            self.inner.poll_event(cx)
        } else {
            Poll::Pending
        }
    }

    fn attend(&mut self, attention: Attention) {
        self.attention = attention;
    }

    fn works_anywhere(&self) -> bool {
        true
    }

    fn reads_anywhere(&self) -> bool {
        true
    }
}

/// Longer than any test.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// Somebody wants the lock of this name.
pub(super) fn order(name: &str) -> Order {
    Order {
        key: name.into(),
        token: Token::random(Nonce::new()),
        function: "",
        terms: Terms::new(LONG).expect("a ttl"),
        watchdog: None,
        wait: LONG,
        share: None,
    }
}

/// Only the test's time: somebody who waits for a processor is not to be taken to be away.
pub(super) fn machine_on(store: impl LockStore + 'static) -> Machine {
    let limits = Limits {
        in_flight: 4_096,
        ..Limits::of_tests(LONG, 100)
    };
    let clock = Clock::tokio();
    Machine::new(Box::new(store), limits, clock, true, Arc::default())
}

/// A caller asks for a lock of its own and goes to sleep; how often it has been woken since.
pub(super) fn asks(inbox: &Inbox, number: u64) -> impl Fn() -> usize + use<> {
    let (command, slot) = asks_for(number, order(&number.to_string()));
    let (task, woken) = counting();
    assert!(slot.poll_granted(&Context::from_waker(&task)).is_pending());
    assert!(inbox.put(command));
    woken
}

pub(super) fn asks_for(number: u64, order: Order) -> (Command, Arc<Slot>) {
    let slot = Slot::new(order.key.clone(), Clock::tokio());
    let command = Command::Acquire {
        id: TicketId(number),
        order,
        slot: Arc::clone(&slot),
    };
    (command, slot)
}
