//! The store of a kit's pool. It wraps another store, and simulates the losses, outages and delays
//! of the test.

use std::collections::{HashSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant as TokioInstant, Sleep, sleep_until};

use super::line::{Line, Orders};
use super::point::Point;
use crate::base::clock::{Clock, Instant, earlier};
use crate::base::full_key::{FullKey, KeyMap};
use crate::base::token::Token;
use crate::error::LockError;
use crate::store::memory::space::Space;
use crate::store::{
    Failure, Give, GiveKind, LockStore, Op, OpId, Request, Retry, Socket, StoreEvent, Take,
};

/// Time limit for the store's answer to a request of the kit itself, which removes a lock.
const PATIENCE: Duration = Duration::from_secs(1);

/// Number of the first request of the kit itself. The kit counts down from here, and the engine
/// numbers its requests upwards from 1, so the numbers never meet.
const LAST_OP: u64 = u64::MAX;

/// A store that wraps the store `inner`. The test changes `line`, the simulated connection to
/// `inner`, and this store carries out the changes.
pub(crate) struct KitStore {
    inner: Box<dyn LockStore>,
    line: Arc<Line>,
    clock: Clock,
    /// The engine's requests without an answer.
    unanswered: HashSet<OpId>,
    /// For each key, the tokens with which this pool may hold the key at the store.
    tokens: KeyMap<Vec<Token>>,
    /// Events for the engine's next polls.
    ready: VecDeque<StoreEvent>,
    /// Delayed events, each with the time at which the engine receives it.
    late: VecDeque<(Instant, StoreEvent)>,
    timer: Option<Pin<Box<Sleep>>>,
    own_requests: u64,
}

impl KitStore {
    pub(super) fn new(inner: Box<dyn LockStore>, line: Arc<Line>, clock: Clock) -> Self {
        Self {
            inner,
            line,
            clock,
            unanswered: HashSet::new(),
            tokens: KeyMap::default(),
            ready: VecDeque::new(),
            late: VecDeque::new(),
            timer: None,
            own_requests: 0,
        }
    }

    /// Prepares for the engine's request `op` before it is sent. Updates the tokens with which this
    /// pool may hold keys. If `op` is a renewal or a release at which the test has planned a loss,
    /// removes the lock first.
    fn look_at(&mut self, op: &Op) {
        match op {
            Op::Take(Take { key, token, .. }) | Op::Adopt { key, token, .. } => {
                self.holds(key, *token);
            }
            Op::TakeAll { keys, .. } => {
                for (key, token) in keys {
                    self.holds(key, *token);
                }
            }
            Op::Keep { renewals, .. } => {
                for renewal in renewals {
                    if self.line.loses(&renewal.key, Point::NextRenewal) {
                        self.remove(&renewal.key, renewal.token);
                    }
                }
            }
            Op::Give(Give { key, token, .. }) => {
                if self.line.loses_release(key, *token) {
                    self.remove(key, *token);
                }
                if let Some(tokens) = self.tokens.get_mut(key) {
                    tokens.retain(|held| held != token);
                }
            }
            Op::Leave { .. } | Op::Forget { .. } => {}
        }
    }

    fn holds(&mut self, key: &FullKey, token: Token) {
        let tokens = self.tokens.entry(key.clone()).or_default();
        if !tokens.contains(&token) {
            tokens.push(token);
        }
    }

    /// Removes this pool's locks and shares of `key`, as if the store had lost them.
    fn take_away(&mut self, key: &FullKey) {
        for token in self.tokens.remove(key).unwrap_or_default() {
            self.remove(key, token);
        }
    }

    fn remove(&mut self, key: &FullKey, token: Token) {
        let id = OpId(LAST_OP - self.own_requests);
        self.own_requests += 1;
        let op = Op::Give(Give::now(key.clone(), token, GiveKind::Share));
        let patience = PATIENCE;
        self.inner.submit(&mut vec![Request { id, op, patience }]);
    }

    /// True if the request was sent by the kit itself, and not by the engine.
    fn is_own(&self, id: OpId) -> bool {
        LAST_OP - self.own_requests < id.0
    }

    fn obey(&mut self, orders: &mut Orders) {
        if orders.cut {
            self.late.clear();
            let mut unanswered: Vec<_> = self.unanswered.drain().collect();
            unanswered.sort_unstable();
            let failed = unanswered.into_iter().map(|id| failed(id, true));
            self.ready.extend(failed);
        }
        if self.line.is_down() && orders.cut {
            self.ready.push_back(StoreEvent::Away);
        }
        if orders.back {
            self.ready.push_back(StoreEvent::Connected);
        }
        for key in orders.taken_away.drain(..) {
            self.take_away(&key);
            self.line.lost(key);
        }
    }

    /// Polls the inner store for the next event for the engine. Skips answers to the kit's own
    /// requests, and to requests that a simulated outage has already failed. While the line is
    /// down, also skips all events that are not answers.
    fn poll_inner(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent> {
        loop {
            let event = match self.inner.poll_event(cx) {
                Poll::Ready(event) => event,
                Poll::Pending => return Poll::Pending,
            };
            let passes = match &event {
                StoreEvent::Reply(id, _) => !self.is_own(*id) && self.unanswered.contains(id),
                _ => !self.line.is_down(),
            };
            if passes {
                return Poll::Ready(event);
            }
        }
    }

    /// Returns the next delayed event, if its time has come.
    fn pop_late(&mut self, now: Instant) -> Option<StoreEvent> {
        let due = self.late.front().is_some_and(|(at, _)| *at <= now);
        due.then(|| self.late.pop_front())?.map(|(_, event)| event)
    }

    fn pass(&mut self, event: StoreEvent) -> Poll<StoreEvent> {
        if let StoreEvent::Reply(id, _) = &event {
            self.unanswered.remove(id);
        }
        Poll::Ready(event)
    }

    /// Sets the timer to `at`. Returns true if that time has come.
    fn timer_is_over(&mut self, at: Option<Instant>, now: Instant, cx: &mut Context<'_>) -> bool {
        let Some(at) = at else {
            self.timer = None;
            return false;
        };
        let at = TokioInstant::now() + at.since(now);
        let timer = match &mut self.timer {
            Some(timer) => {
                timer.as_mut().reset(at);
                timer
            }
            None => self.timer.insert(Box::pin(sleep_until(at))),
        };
        timer.as_mut().poll(cx).is_ready()
    }
}

impl LockStore for KitStore {
    fn submit(&mut self, batch: &mut Vec<Request>) {
        if self.line.is_down() {
            let refused = batch.drain(..).map(|request| failed(request.id, false));
            self.ready.extend(refused);
            return;
        }
        for request in batch.iter() {
            self.look_at(&request.op);
            self.unanswered.insert(request.id);
        }
        self.inner.submit(batch);
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent> {
        loop {
            let now = self.clock.now();
            let mut orders = self.line.orders(cx.waker(), now);
            self.obey(&mut orders);
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(event);
            }
            while let Poll::Ready(event) = self.poll_inner(cx) {
                if orders.delay.is_zero() && self.late.is_empty() {
                    return self.pass(event);
                }
                let last = self.late.back().map_or(now, |(at, _)| *at);
                self.late.push_back((last.max(now + orders.delay), event));
            }
            if let Some(event) = self.pop_late(now) {
                return self.pass(event);
            }
            let late = self.late.front().map(|(at, _)| *at);
            if !self.timer_is_over(earlier(late, orders.next_loss), now, cx) {
                return Poll::Pending;
            }
        }
    }

    fn is_away(&self) -> bool {
        self.line.is_down() || self.inner.is_away()
    }

    fn absence(&self, key: &FullKey) -> Option<LockError> {
        if self.line.is_down() {
            return Some(cut());
        }
        self.inner.absence(key)
    }

    fn verifies(&self) -> bool {
        self.inner.verifies()
    }

    fn local(&self) -> Option<Arc<Space>> {
        self.inner.local()
    }

    fn sockets(&mut self) -> Option<Vec<Arc<dyn Socket>>> {
        self.inner.sockets()
    }
}

/// Returns the answer to a request that fails because of a simulated outage. `executed` is true if
/// the store may have carried out the request.
fn failed(id: OpId, executed: bool) -> StoreEvent {
    let failure = Failure {
        error: cut(),
        retry: Retry::Later,
        executed,
    };
    StoreEvent::Reply(id, Err(failure))
}

/// Returns the error of a request while the store is unreachable.
pub(super) fn cut() -> LockError {
    LockError::unavailable("io", "the test kit has cut the connection to the store")
}
