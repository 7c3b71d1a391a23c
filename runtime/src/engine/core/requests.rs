//! The requests to the store: those to send, and those without an answer.

use std::mem;
use std::time::Duration;

use super::signal::reuse;
use super::ticket::TicketId;
use crate::base::clock::Instant;
use crate::base::id_map::IdMap;
use crate::store::{Op, OpId, Request};

/// A request without an answer.
#[derive(Debug)]
pub(super) enum Flight {
    Acquire {
        ticket: TicketId,
        sent: Instant,
    },
    /// Acquires all locks of one call.
    AcquireAll {
        tickets: Vec<TicketId>,
        /// True if the call queues when the locks are not free.
        waits: bool,
        sent: Instant,
    },
    Renew {
        tickets: Vec<TicketId>,
        /// True if the locks were renewed as shares.
        shares: bool,
        sent: Instant,
        /// Time at which the first of these leases is due if there is no answer.
        due: Instant,
    },
    Release {
        ticket: TicketId,
        /// True if no acquire of this ticket was open when this request was sent.
        certain: bool,
    },
    /// Gives up this process's place in the store's queue. The core ignores the reply.
    Leave,
    /// Removes the result kept for a key, for the caller with this number.
    Forget(u64),
    Adopt {
        ticket: TicketId,
        sent: Instant,
    },
}

/// The requests to send, and those under way.
#[derive(Debug)]
pub(super) struct Requests {
    to_send: Vec<Request>,
    flights: IdMap<OpId, Flight>,
    last: u64,
    /// Number of requests under way at which the core asks for no further lock.
    most: usize,
}

impl Requests {
    pub(super) fn new(most: usize) -> Self {
        Self {
            to_send: Vec::new(),
            flights: IdMap::default(),
            last: 0,
            most,
        }
    }

    /// Adds a request to send, after those before it.
    pub(super) fn send(&mut self, op: Op, patience: Duration, flight: Flight) -> OpId {
        self.last += 1;
        let id = OpId(self.last);
        self.flights.insert(id, flight);
        self.to_send.push(Request { id, op, patience });
        id
    }

    /// Removes and returns the request `op`, which has an answer now. Returns none if the request
    /// had an answer before.
    pub(super) fn answered(&mut self, op: OpId) -> Option<Flight> {
        self.flights.remove(&op)
    }

    /// Returns the leases that `op` renews, as long as there is no answer.
    pub(super) fn renewed_by(&self, op: OpId) -> &[TicketId] {
        match self.flights.get(&op) {
            Some(Flight::Renew { tickets, .. }) => tickets,
            _ => &[],
        }
    }

    /// Returns the number of requests without an answer.
    pub(super) fn under_way(&self) -> usize {
        self.flights.len()
    }

    /// True if so many requests are under way that the core asks for no further lock.
    pub(super) fn are_too_many(&self) -> bool {
        self.most <= self.flights.len()
    }

    /// True if the store has not confirmed yet that this process gives up a place in its queue.
    pub(super) fn leave_a_queue(&self) -> bool {
        let leaves = |flight: &Flight| matches!(flight, Flight::Leave);
        self.flights.values().any(leaves)
    }

    /// True if a request waits to be sent.
    pub(super) fn are_to_send(&self) -> bool {
        !self.to_send.is_empty()
    }

    /// Returns the number of requests to send.
    pub(super) fn to_send(&self) -> usize {
        self.to_send.len()
    }

    /// Takes the requests to send, in this order.
    pub(super) fn take(&mut self) -> Vec<Request> {
        mem::take(&mut self.to_send)
    }

    /// Reuses the memory of a sent list.
    pub(super) fn reuse(&mut self, space: Vec<Request>) {
        reuse(&mut self.to_send, space);
    }
}
