//! The requests to the store: those to be sent, and those that have no answer yet.

use std::mem;
use std::time::Duration;

use super::signal::reuse;
use super::ticket::TicketId;
use crate::base::clock::Instant;
use crate::base::id_map::IdMap;
use crate::store::{Op, OpId, Request};

/// A request without a reply.
#[derive(Debug)]
pub(super) enum Flight {
    Acquire {
        ticket: TicketId,
        sent: Instant,
    },
    /// All tickets of one call.
    AcquireAll {
        tickets: Vec<TicketId>,
        /// Whether the call queues if the locks are not free now.
        waits: bool,
        sent: Instant,
    },
    Renew {
        tickets: Vec<TicketId>,
        /// Whether the locks were renewed as shares.
        shares: bool,
        sent: Instant,
        /// When the first of these leases is due, should there be no answer.
        due: Instant,
    },
    Release {
        ticket: TicketId,
        /// Whether no acquire of this ticket was open when this request was sent.
        certain: bool,
    },
    /// Gives up this process's place in the store's queue. The core ignores the reply.
    Leave,
    /// Removes the result that is kept for a key, for the caller of this number.
    Forget(u64),
    /// Adopts a lock.
    Adopt {
        ticket: TicketId,
        sent: Instant,
    },
}

/// The requests to be sent, and those under way.
#[derive(Debug)]
pub(super) struct Requests {
    to_send: Vec<Request>,
    flights: IdMap<OpId, Flight>,
    last: u64,
    /// With so many requests under way the core asks for no further lock.
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

    /// Sends a request, after those before it.
    pub(super) fn send(&mut self, op: Op, patience: Duration, flight: Flight) -> OpId {
        self.last += 1;
        let id = OpId(self.last);
        self.flights.insert(id, flight);
        self.to_send.push(Request { id, op, patience });
        id
    }

    /// The request `op` has an answer. None if it had one before.
    pub(super) fn answered(&mut self, op: OpId) -> Option<Flight> {
        self.flights.remove(&op)
    }

    /// The leases that `op` renews, as long as there is no answer.
    pub(super) fn renewed_by(&self, op: OpId) -> &[TicketId] {
        match self.flights.get(&op) {
            Some(Flight::Renew { tickets, .. }) => tickets,
            _ => &[],
        }
    }

    /// How many requests have no answer yet.
    pub(super) fn under_way(&self) -> usize {
        self.flights.len()
    }

    /// Whether so many requests are under way that the core asks for no further lock.
    pub(super) fn are_too_many(&self) -> bool {
        self.most <= self.flights.len()
    }

    /// Whether the store has yet to hear that this process gives up a place in its queue.
    pub(super) fn leave_a_queue(&self) -> bool {
        let leaves = |flight: &Flight| matches!(flight, Flight::Leave);
        self.flights.values().any(leaves)
    }

    /// Whether a request is to be sent.
    pub(super) fn are_to_send(&self) -> bool {
        !self.to_send.is_empty()
    }

    /// The number of requests to send.
    pub(super) fn to_send(&self) -> usize {
        self.to_send.len()
    }

    /// Takes the requests to send, in this order.
    pub(super) fn take(&mut self) -> Vec<Request> {
        mem::take(&mut self.to_send)
    }

    /// Takes back the space of a list that has been sent.
    pub(super) fn reuse(&mut self, space: Vec<Request>) {
        reuse(&mut self.to_send, space);
    }
}
