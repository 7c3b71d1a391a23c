//! The lock store: two sessions of one process, each with half of the keys.
//!
//! A commit waits for the disk, and a session does nothing meanwhile. With two, one works while the
//! other waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::try_join;

use super::address::Address;
use super::routes::{Route, route};
use super::session::Session;
use super::turns::Listener;
use super::{check, connection};
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
        let was_away = self.is_away();
        let mut moved = false;
        if let Some(listener) = &mut self.listener {
            moved |= listener.poll(cx, &mut self.events);
        }
        let hears = self.hears();
        for session in &mut self.sessions {
            moved |= session.advance(cx, hears);
            self.events.append(&mut session.events);
        }
        // Told once: the first session that is back serves all requests.
        if was_away && !self.is_away() {
            self.events.push_back(StoreEvent::Connected);
        }
        moved
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
            if !std::mem::take(&mut self.unsent)
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
