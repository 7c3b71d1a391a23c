//! The requests to the store: some not sent yet, the others without an answer.

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
        /// True if the call can queue for locks that are not free.
        waits: bool,
        sent: Instant,
    },
    Renew {
        tickets: Vec<TicketId>,
        /// True if the locks were renewed as shares.
        shares: bool,
        sent: Instant,
        /// Time at which the first lease of the batch is due again if there is no answer.
        due: Instant,
    },
    Release {
        ticket: TicketId,
        /// True if the outcome of every acquire of this ticket was known when this request was
        /// sent. Only then can the answer prove a loss.
        certain: bool,
    },
    /// Gives up this process's place in the queue of a key. The core ignores the reply.
    Leave,
    /// Removes the results kept for a key. The number identifies the caller.
    Forget(u64),
    Adopt {
        ticket: TicketId,
        sent: Instant,
    },
}

/// The requests to send, and all requests without an answer.
#[derive(Debug)]
pub(super) struct Requests {
    to_send: Vec<Request>,
    flights: IdMap<OpId, Flight>,
    last: u64,
    /// The core requests no further lock while at least this many requests have no answer.
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

    /// Adds a request to send after all earlier ones.
    pub(super) fn send(&mut self, op: Op, patience: Duration, flight: Flight) -> OpId {
        self.last += 1;
        let id = OpId(self.last);
        self.flights.insert(id, flight);
        self.to_send.push(Request { id, op, patience });
        id
    }

    /// Removes and returns the request `op`, which has an answer now. Returns none if the request
    /// has been answered before.
    pub(super) fn answered(&mut self, op: OpId) -> Option<Flight> {
        self.flights.remove(&op)
    }

    /// Returns the leases that the unanswered request `op` renews.
    pub(super) fn renewed_by(&self, op: OpId) -> &[TicketId] {
        match self.flights.get(&op) {
            Some(Flight::Renew { tickets, .. }) => tickets,
            _ => &[],
        }
    }

    /// Returns the last request, which may not be sent yet.
    pub(super) fn last(&self) -> OpId {
        OpId(self.last)
    }

    /// Returns the number of requests without an answer.
    pub(super) fn under_way(&self) -> usize {
        self.flights.len()
    }

    /// True if too many requests have no answer, so that the core must not request another lock.
    pub(super) fn are_too_many(&self) -> bool {
        self.most <= self.flights.len()
    }

    /// True if a `Leave` request has no answer yet.
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

    /// Takes the requests to send. They must be sent in the order of the list.
    pub(super) fn take(&mut self) -> Vec<Request> {
        mem::take(&mut self.to_send)
    }

    /// Keeps `space`, a list of sent requests, to reuse its memory.
    pub(super) fn reuse(&mut self, space: Vec<Request>) {
        reuse(&mut self.to_send, space);
    }
}
