//! The lock store: two sessions of one process, each with half of the keys.
//!
//! A commit waits for the disk, and a session does nothing meanwhile. With two, one works while the
//! other waits.

use std::collections::VecDeque;
use std::future::Future as _;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::try_join;
use tokio::time::{Instant, Sleep, sleep};

use super::address::Address;
use super::renewals::Renewals;
use super::routes::{Route, route};
use super::session::Session;
use super::turns::Listener;
use super::{check, connection};
use crate::base::clock::Clock;
use crate::base::token::{Nonce, Token};
use crate::check_report::CheckReport;
use crate::error::LockError;
use crate::store::options::Options;
use crate::store::{LockStore, Reply, Request, StoreEvent};

/// Locks in one database.
pub(crate) struct PostgresStore {
    /// The first hears of turns, unless `listener` does.
    sessions: [Session; 2],
    /// The connection for turns, where that is another one.
    listener: Option<Listener>,
    renewals: Renewals,
    /// What the server told, and waits for an answer that it may follow.
    messages: VecDeque<StoreEvent>,
    clock: Clock,
    /// For the renewals that are due next.
    timer: Pin<Box<Sleep>>,
    /// Whether a request was submitted since the sessions were polled.
    unsent: bool,
    events: VecDeque<StoreEvent>,
}

impl PostgresStore {
    pub(crate) async fn connect(address: Address, options: &Options) -> Result<Self, LockError> {
        if address.migrates() {
            let migrated = connection::migrate(&address).await;
            migrated.map_err(|failure| failure.error)?;
        }
        let (address, process) = (Arc::new(address), Token::random(Nonce::new()));
        let open = |hears| {
            let address = Arc::clone(&address);
            Box::pin(connection::open(
                address,
                process,
                hears,
                options.io_timeout,
            ))
        };
        let opened = try_join(open(true), open(false)).await;
        let (mut first, second) = opened.map_err(|failure| failure.error)?;
        // Without an answer there is nothing to log: the first call will report it.
        if let Ok(report) = check::examine(&mut first, &address, options).await {
            report.log();
        }
        let session = |opened, hears| {
            let address = Arc::clone(&address);
            Session::new(address, process, hears, options.io_timeout, opened)
        };
        Ok(Self {
            sessions: [session(first, true), session(second, false)],
            listener: Listener::of(&address, process, options.io_timeout),
            renewals: Renewals::new(),
            messages: VecDeque::new(),
            clock: options.clock,
            timer: Box::pin(sleep(Duration::ZERO)),
            unsent: false,
            events: VecDeque::new(),
        })
    }

    /// Looks at the server over a connection of its own.
    pub(crate) async fn check(
        address: Address,
        options: &Options,
    ) -> Result<CheckReport, LockError> {
        let (address, process) = (Arc::new(address), Token::random(Nonce::new()));
        let opening = connection::open(Arc::clone(&address), process, true, options.io_timeout);
        let examined = match opening.await {
            Ok(mut opened) => check::examine(&mut opened, &address, options).await,
            Err(failure) => return check::unreachable(&address, failure),
        };
        examined.map_err(|failure| failure.error)
    }

    /// Does what is due; returns whether anything was.
    fn advance(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        for at in [0, 1] {
            let (was_away, hears) = (self.sessions[at].is_away(), self.hears());
            moved |= self.sessions[at].advance(cx, hears);
            if self.sessions[at].is_away() && !was_away {
                self.sessions[1 - at].doubt();
                moved = true;
            }
            self.take_events(at);
        }
        if let Some(listener) = &mut self.listener {
            moved |= listener.poll(cx, &mut self.messages);
        }
        self.pass_messages();
        moved | self.poll_timer(cx)
    }

    fn take_events(&mut self, at: usize) {
        let session = &mut self.sessions[at];
        self.messages.append(&mut session.messages);
        for event in session.events.drain(..) {
            self.events.extend(match event {
                StoreEvent::Reply(id, result) => {
                    let answer = self.renewals.answered(id, result);
                    answer.map(|(id, result)| StoreEvent::Reply(id, result))
                }
                event => Some(event),
            });
        }
    }

    /// Passes on what the server told. That a lock was taken away may be told before the answer
    /// that gave the lock, over another connection. So it waits for the answers on its key.
    fn pass_messages(&mut self) {
        for message in mem::take(&mut self.messages) {
            let waits = matches!(&message, StoreEvent::Revoked { key, .. }
                if self.sessions.iter().any(|session| session.load().open_keys.contains(key)));
            if waits {
                self.messages.push_back(message);
            } else {
                self.events.push_back(message);
            }
        }
    }

    /// Answers the renewals that are due.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(due) = self.renewals.next_due() else {
            return false;
        };
        let now = self.clock.now();
        let overdue = self.renewals.overdue(now);
        if !overdue.is_empty() {
            let replies = overdue.into_iter();
            let replies = replies.map(|(id, result)| StoreEvent::Reply(id, result));
            self.events.extend(replies);
            return true;
        }
        let due = Instant::now() + due.since(now);
        // An earlier deadline of the timer stays: moving a timer costs more than one wake-up for
        // nothing.
        if due < self.timer.deadline() || self.timer.is_elapsed() {
            self.timer.as_mut().reset(due);
        }
        self.timer.as_mut().poll(cx).is_ready()
    }

    /// Whether the pool hears of its turns now.
    fn hears(&self) -> bool {
        self.sessions[0].hears() || self.listener.as_ref().is_some_and(Listener::listens)
    }
}

impl LockStore for PostgresStore {
    fn is_away(&self) -> bool {
        self.sessions.iter().all(Session::is_away)
    }

    fn submit(&mut self, batch: &mut Vec<Request>) {
        self.unsent = true;
        for request in batch.drain(..) {
            match route(&request.op, self.sessions.each_ref().map(Session::load)) {
                Route::Session(at) => self.sessions[at].submit(request),
                Route::Both(homes) => {
                    let parts = self.renewals.divide(&request, &homes, self.clock.now());
                    for (session, part) in self.sessions.iter_mut().zip(parts) {
                        session.submit(part);
                    }
                }
                Route::Apart => {
                    let reply = StoreEvent::Reply(request.id, Ok(Reply::Apart));
                    self.events.push_back(reply);
                }
            }
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent> {
        loop {
            // Events that are ready do not keep requests from being sent.
            if !mem::take(&mut self.unsent)
                && let Some(event) = self.events.pop_front()
            {
                return Poll::Ready(event);
            }
            if !self.advance(cx) {
                return self.events.pop_front().map_or(Poll::Pending, Poll::Ready);
            }
        }
    }
}
