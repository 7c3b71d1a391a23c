//! The quorum core's state of one node. Does no I/O.

use std::collections::HashSet;
use std::mem;
use std::time::Duration;

use super::eligibility::Eligibility;
use super::removals::{PendingRemoval, PendingRemovals};
use crate::base::clock::Instant;
use crate::store::{Failure, Give, GiveKind, Op, OpId, Reply, Request};

/// State of one node, and the requests to send to it.
#[derive(Debug, Default)]
pub(super) struct NodeState {
    pub(super) eligibility: Eligibility,
    /// Acquires that the node may still carry out.
    unsettled: HashSet<OpId>,
    removals: PendingRemovals,
    /// True if the node can be reached, according to its last answer or connection.
    pub(super) up: bool,
    outbox: Vec<Request>,
}

impl NodeState {
    pub(super) fn send(&mut self, request: Request) {
        self.outbox.push(request);
    }

    /// Sends an acquire. The node may still carry it out until an answer or a removal settles it.
    pub(super) fn send_acquire(&mut self, request: Request) {
        self.unsettled.insert(request.id);
        self.outbox.push(request);
    }

    /// Returns the requests to send, in the order of sending.
    pub(super) fn take_outbox(&mut self) -> Vec<Request> {
        mem::take(&mut self.outbox)
    }

    /// Handles the node's answer to the request `id`. Records if the node can be reached, and if an
    /// acquire can no longer be carried out.
    pub(super) fn receive(&mut self, id: OpId, result: &Result<Reply, Failure>) {
        self.up = match result {
            Ok(_) => true,
            Err(failure) => self.up && !matches!(failure.code(), "io" | "timeout"),
        };
        if !result.as_ref().is_err_and(|failure| failure.executed) {
            self.unsettled.remove(&id);
        }
    }

    /// Removes a key from the node. Repeats the removal until its outcome is certain or the key has
    /// expired. The removal gets the id `own`, or joins a pending removal of the same key and
    /// token.
    pub(super) fn remove(
        &mut self,
        own: OpId,
        removal: PendingRemoval,
        patience: Duration,
        now: Instant,
    ) {
        let id = self.removals.add(own, removal);
        self.try_removal(id, patience, now);
    }

    pub(super) fn retry_all(&mut self, patience: Duration, now: Instant) {
        for id in self.removals.all() {
            self.try_removal(id, patience, now);
        }
    }

    /// Retries removals that are due, and drops those of expired keys.
    pub(super) fn retry_due(&mut self, patience: Duration, now: Instant) {
        for id in self.removals.due(now) {
            if self.removals.is_over(id, now) {
                self.settle(id);
            } else {
                self.try_removal(id, patience, now);
            }
        }
    }

    fn try_removal(&mut self, id: OpId, patience: Duration, now: Instant) {
        let Some(removal) = self.removals.tried(id, now) else {
            return;
        };
        let asked = removal.asked.iter();
        let unsettled = asked.filter(|acquire| self.unsettled.contains(acquire));
        let op = Op::Give(Give {
            key: removal.key.clone(),
            token: removal.wire,
            keep: removal.keep(now),
            makes_way: false,
            after: unsettled.copied().collect(),
            kind: GiveKind::Lock,
        });
        self.outbox.push(Request { id, op, patience });
    }

    /// True if at most one attempt at the removal `id` was sent.
    pub(super) fn is_first_try(&self, id: OpId) -> bool {
        self.removals.is_first_try(id)
    }

    /// Removes and returns the release that waits for an answer to the removal `id`.
    pub(super) fn take_release(&mut self, id: OpId) -> Option<OpId> {
        self.removals.take_release(id)
    }

    /// Drops the removal `id` after its outcome is certain or its key has expired. Also forgets the
    /// acquires that it undoes, because none of them can set the key now.
    pub(super) fn settle(&mut self, id: OpId) {
        if let Some(removal) = self.removals.settle(id) {
            for acquire in removal.asked {
                self.unsettled.remove(&acquire);
            }
        }
    }

    /// Returns the time of the next retry of a removal.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.removals.next_due()
    }
}
