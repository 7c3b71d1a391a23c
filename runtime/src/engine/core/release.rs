//! Releasing a lock, and removing a lock that the store may grant to an abandoned call.
//!
//! A removal is final if it reached the server after all acquires of its token, on the same
//! connection. It is also final if the outcomes of these acquires are known. Otherwise the engine
//! repeats the removal until the key would have expired anyway, because the server may carry out an
//! unanswered acquire later. In a test, clients sent 100 requests, timed out and closed their
//! sockets. The server still carried out all 100.
//!
//! If a removal finds the key gone, the core reports a lost lease ([`Removal::Gone`]). It does not
//! report a loss if the key may have expired, or if another try of the same removal may have
//! removed the key. If the lease is already over when its holder leaves, the core reports the loss
//! before the removal.

use std::sync::Arc;
use std::time::Duration;

use super::Core;
use super::cleanup::FIRST_RETRY;
use super::requests::Flight;
use super::signal::Signal;
use super::ticket::{Removal, Stage, Ticket, TicketId};
use crate::base::clock::Instant;
use crate::base::codes;
use crate::base::reporter;
use crate::base::seeded::seeded;
use crate::fence::Fence;
use crate::store::kept::Record;
use crate::store::{Failure, Give, GiveKind, Op, Reply};

impl Core {
    /// Releases a held lock. If `keep` is set, the key of an exclusive lock stays taken for that
    /// time. The answer is `Released`.
    pub(crate) fn release(&mut self, id: TicketId, keep: Option<Duration>, now: Instant) {
        if let (Some(keep), Some(ticket)) = (keep, self.tickets.get_mut(id))
            // Includes `Lost`: the caller is notified of a loss before the lease ends. A body that
            // returns in that time has done its work, so the key must stay taken.
            && matches!(ticket.stage(), Stage::Held(_) | Stage::Lost)
            && ticket.acquire().share.is_none()
        {
            ticket.keep_until(now + keep);
        }
        self.leave(id, true, now);
    }

    /// Like [`release`](Self::release), but the store also keeps the result `record`, unless the
    /// lock is gone.
    pub(crate) fn release_with(
        &mut self,
        id: TicketId,
        keep: Option<Duration>,
        record: Arc<Record>,
        now: Instant,
    ) {
        if let Some(ticket) = self.tickets.get_mut(id)
            && matches!(ticket.stage(), Stage::Held(_) | Stage::Lost)
        {
            ticket.record(record);
        }
        self.release(id, keep, now);
    }

    /// Makes the release, or the removal after a drop, keep the key at the store at least until
    /// `until`. Does not extend the lease.
    pub(crate) fn keep_until(&mut self, id: TicketId, until: Instant) {
        if seeded!(self, MinHoldForgotten) {
            return;
        }
        if let Some(ticket) = self.tickets.get_mut(id)
            && matches!(ticket.stage(), Stage::Held(_) | Stage::Lost)
        {
            ticket.keep_until(until);
        }
    }

    /// Gives up the ticket of a dropped call, in any stage. The caller gets no answer.
    pub(crate) fn abandon(&mut self, id: TicketId, now: Instant) {
        self.leave(id, false, now);
    }

    /// Gives up a ticket, in any stage. `awaited` is true if the caller waits for the outcome.
    pub(super) fn leave(&mut self, id: TicketId, awaited: bool, now: Instant) {
        self.end_if_over(id, now);
        if self.hand_over(id, awaited, now) {
            return;
        }
        let Some(ticket) = self.tickets.get(id) else {
            return;
        };
        let key = ticket.acquire().key.clone();
        match ticket.stage() {
            Stage::Queued | Stage::Asking { .. } => {
                if let Some(queue) = self.queues.get_mut(&key) {
                    queue.remove(id);
                }
                if !ticket.may_be_taken() || seeded!(self, OrphanForgotten) {
                    self.tickets.remove(id);
                } else {
                    self.start_cleanup(id, awaited, false, now);
                }
                self.advance(&key, now);
            }
            Stage::Held(_) | Stage::Lost => {
                self.hold_times.note(ticket, now);
                let makes_way = self.holder_makes_way(id, &key, now);
                // The removal must come before the acquire of the next call, which `vacate` sends
                // on the same connection.
                self.start_cleanup(id, awaited, makes_way, now);
                self.vacate(id, &key, makes_way, now);
            }
            Stage::Releasing(_) => {}
        }
    }

    /// Ends the lease as lost if it is over, and no timer has noticed this yet.
    fn end_if_over(&mut self, id: TicketId, now: Instant) {
        if let Some(ticket) = self.tickets.get(id)
            && let Some(lease) = ticket.lease()
            && lease.deadline() <= now
        {
            self.hold_times.note(ticket, now);
            self.end_lease(id, now);
        }
    }

    /// Starts the removal of the key. If `makes_way`, the store then leaves the key free for
    /// clients that do not know the queue.
    fn start_cleanup(&mut self, id: TicketId, awaited: bool, makes_way: bool, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(id) else {
            return;
        };
        ticket.start_cleanup(awaited, makes_way, now);
        self.remove_key(id, now);
        self.arm(id);
    }

    fn remove_key(&mut self, id: TicketId, now: Instant) {
        let io_timeout = self.limits.io_timeout;
        let Some(ticket) = self.tickets.get_mut(id) else {
            return;
        };
        // `keep` is the time left until a fixed end. So a repeated try does not keep the key longer
        // than the first try.
        let keep = ticket.keep(now);
        let attempt = ticket.acquire().terms.attempt();
        let patience = attempt.max(FIRST_RETRY).min(io_timeout);
        let Some(cleanup) = ticket.cleanup_mut() else {
            return;
        };
        cleanup.tried(patience, now, |pause| self.jitter.around(pause));
        let makes_way = cleanup.makes_way();
        let acquire = ticket.acquire();
        let (key, token) = (acquire.key.clone(), acquire.token);
        let certain = ticket.is_settled();
        let after = if seeded!(self, OrderForgotten) {
            Vec::new()
        } else {
            ticket.open().to_vec()
        };
        let kind = match (acquire.share, ticket.recorded()) {
            (Some(_), _) => GiveKind::Share,
            (None, Some(record)) => GiveKind::Record(Arc::clone(record)),
            (None, None) => GiveKind::Lock,
        };
        let op = Op::Give(Give {
            key,
            token,
            keep,
            makes_way,
            after,
            kind,
        });
        let flight = Flight::Release {
            ticket: id,
            certain,
        };
        self.requests.send(op, patience, flight);
    }

    pub(super) fn release_replied(
        &mut self,
        id: TicketId,
        certain: bool,
        result: Result<Reply, Failure>,
        now: Instant,
    ) {
        let ticket = self.tickets.get_mut(id);
        let Some(cleanup) = ticket.and_then(Ticket::cleanup_mut) else {
            return;
        };
        match result {
            Ok(Reply::Released { found, ordered }) => {
                if !found && cleanup.missed(certain, now) && !seeded!(self, GoneIsReleased) {
                    return self.gone(id, now);
                }
                if cleanup.removed(now, |pause| self.jitter.around(pause)) {
                    self.signal(Signal::Released {
                        ticket: id,
                        removal: Removal::Confirmed,
                    });
                }
                if certain || ordered || seeded!(self, RemovalBelieved) {
                    return self.forget(id, now);
                }
            }
            Ok(_) => {}
            Err(failure) => cleanup.failed(&failure, now, |pause| self.jitter.around(pause)),
        }
        self.arm(id);
    }

    pub(super) fn release_due(&mut self, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(id) else {
            return;
        };
        let Some(cleanup) = ticket.cleanup_mut() else {
            return;
        };
        if cleanup.gives_up_waiting(now) {
            self.signals.push(Signal::Released {
                ticket: id,
                removal: Removal::Unknown,
            });
        }
        if cleanup.has_expired(now) {
            if cleanup.ends_a_lock() && !cleanup.is_removed() {
                let tries = cleanup.tries();
                let (key, label) = (ticket.acquire().key.clone(), ticket.acquire().label);
                reporter::log(move || {
                    tracing::warn!(
                        code = codes::RELEASE_UNCONFIRMED,
                        lock.template = label.template(),
                        key = ?key.name(),
                        tries,
                        "release not confirmed; the lock has expired by now"
                    );
                });
            }
            self.forget(id, now);
        } else if cleanup.is_to_try(now) {
            self.remove_key(id, now);
        }
    }

    /// Handles a release that found the lock gone.
    fn gone(&mut self, id: TicketId, now: Instant) {
        if let Some(ticket) = self.tickets.get(id)
            && let Some(cleanup) = ticket.cleanup()
        {
            let (key, fence) = (ticket.acquire().key.clone(), cleanup.fence());
            let label = ticket.acquire().label;
            label.lost();
            reporter::log(move || {
                tracing::warn!(
                    code = codes::LEASE_LOST,
                    lock.template = label.template(),
                    key = ?key.name(),
                    fence = fence.map(Fence::get),
                    "lease lost: the store no longer had the lock when it was released"
                );
            });
        }
        self.signal(Signal::Released {
            ticket: id,
            removal: Removal::Gone,
        });
        self.forget(id, now);
    }

    fn forget(&mut self, id: TicketId, now: Instant) {
        if let Some(ticket) = self.tickets.remove(id)
            && let Some(cleanup) = ticket.cleanup()
            && cleanup.ends_a_lock()
        {
            self.count_release(cleanup.is_removed());
        }
        self.shutdown_due(now);
    }
}
