//! The interface of the store for the engine.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::PostgresStore;
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::error::LockError;
use crate::store::postgres::connection::Connection;
use crate::store::{LockStore, Request, Socket, StoreEvent};

impl LockStore for PostgresStore {
    fn verifies(&self) -> bool {
        !seeded!(PinsUnminded)
    }

    fn is_away(&self) -> bool {
        self.supervisor.is_out() || self.connection.is_none()
    }

    fn absence(&self, _key: &FullKey) -> Option<LockError> {
        Some(self.supervisor.absence()?.error.clone())
    }

    fn sockets(&mut self) -> Option<Vec<Arc<dyn Socket>>> {
        let connection = self.connection.iter();
        self.announced.changed(connection.map(Connection::wire))
    }

    fn submit(&mut self, batch: &mut Vec<Request>) {
        self.unsent = true;
        for request in batch.drain(..) {
            self.gather(request);
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent> {
        loop {
            // Submitted requests are sent first, by `advance`, even if events are ready.
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
