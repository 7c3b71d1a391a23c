//! What several tests need.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;

use tokio::task::consume_budget;
use tokio::time::advance;

use super::ticket::Order;
use crate::clock::Clock;
use crate::lease::Terms;
use crate::store::memory::{MemoryStore, Space};
use crate::store::{LockStore, Request, StoreEvent};
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
    /// The tests' time that each poll takes.
    pub(super) takes: Duration,
}

impl Remote {
    pub(super) fn new() -> Self {
        Self {
            inner: MemoryStore::new(Space::private(Clock::tokio())),
            answers: Arc::default(),
            unsent: Arc::default(),
            takes: Duration::ZERO,
        }
    }
}

impl LockStore for Remote {
    fn submit(&mut self, requests: &mut Vec<Request>) {
        self.unsent.store(true, Ordering::SeqCst);
        self.inner.submit(requests);
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent> {
        self.unsent.store(false, Ordering::SeqCst);
        if !self.takes.is_zero() {
            let _ = pin!(advance(self.takes)).poll(cx);
        }
        // As sockets and channels are.
        ready!(pin!(consume_budget()).poll(cx));
        if self.answers.load(Ordering::SeqCst) {
            self.inner.poll_event(cx)
        } else {
            Poll::Pending
        }
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
