//! The interface of the store for the engine.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::{RedisStore, wires_of};
use crate::base::full_key::FullKey;
use crate::error::LockError;
use crate::store::{LockStore, Request, Socket, StoreEvent};

impl LockStore for RedisStore {
    fn submit(&mut self, requests: &mut Vec<Request>) {
        self.unsent = true;
        self.send(requests);
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent> {
        // Unsent requests are sent first, even if events are ready.
        while std::mem::take(&mut self.unsent) || self.events.is_empty() {
            if !self.advance(cx) && self.events.is_empty() {
                return Poll::Pending;
            }
        }
        self.events.pop_front().map_or(Poll::Pending, Poll::Ready)
    }

    fn is_away(&self) -> bool {
        // The store does not count as away during its first attempt to connect.
        self.is_out() && !self.opening
    }

    fn absence(&self, _key: &FullKey) -> Option<LockError> {
        Some(self.away()?.error.clone())
    }

    fn sockets(&mut self) -> Option<Vec<Arc<dyn Socket>>> {
        let wires = wires_of(self.connection.as_ref(), &self.retired);
        self.announced.changed(wires)
    }
}
