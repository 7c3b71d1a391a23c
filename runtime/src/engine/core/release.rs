//! Releasing a lock, and removing a lock that the store may grant after its caller is gone.
//!
//! A removal is final in two cases. It followed every acquire of its token on one connection, or
//! the outcome of each of these acquires is known. Otherwise the engine repeats the removal until
//! the key would have expired by itself. The reason: a server may carry out an acquire that has no
//! reply. In a test, clients timed out and closed their sockets; the server carried out 100 of 100
//! requests.
//!
//! A removal that finds the key gone tells of a lost lease ([`Removal::Gone`]), unless another
//! request of the same ticket can have removed the key.

use std::time::Duration;

use super::Core;
use super::signal::{Flight, Signal};
use super::ticket::{Cleanup, Origin, Removal, Stage, TicketId};
use crate::base::clock::Instant;
use crate::base::reporter;
use crate::base::seeded::seeded;
use crate::store::{Failure, Op, Reply, Retry};

const FIRST_RETRY: Duration = Duration::from_millis(20);
const LONGEST_RETRY: Duration = Duration::from_secs(1);

impl Core {
    /// The caller gives up its ticket, in whatever stage.
    pub(super) fn leave(&mut self, id: TicketId, awaited: bool, now: Instant) {
        if self.hand_over(id, awaited, now) {
            return;
        }
        let Some(ticket) = self.tickets.get(&id) else {
            return;
        };
        let key = ticket.acquire.key.clone();
        match &ticket.stage {
            Stage::Queued | Stage::Asking { .. } => {
                if let Some(queue) = self.queues.get_mut(&key) {
                    queue.remove(id);
                }
                if (ticket.open.is_empty() && !ticket.taken) || seeded!(self, OrphanForgotten) {
                    self.tickets.remove(&id);
                } else {
                    self.start_cleanup(id, awaited, false, now);
                }
                self.advance(&key, now);
            }
            Stage::Held(_) | Stage::Lost => {
                let makes_way = self.holder_makes_way(id, &key, now);
                // The removal is sent first; the successor's acquire follows on the same
                // connection.
                self.start_cleanup(id, awaited, makes_way, now);
                self.vacate(id, &key, makes_way, now);
            }
            Stage::Releasing(_) => {}
        }
    }

    /// `makes_way`: whether the key is left free for clients that know no queue.
    fn start_cleanup(&mut self, id: TicketId, awaited: bool, makes_way: bool, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        let terms = ticket.acquire.terms;
        let origin = match &ticket.stage {
            Stage::Held(lease) => Origin::Live {
                fence: lease.fence,
                expires: terms.hard(lease.sent),
            },
            Stage::Lost => Origin::Lost,
            _ => Origin::Abandoned,
        };
        ticket.stage = Stage::Releasing(Cleanup {
            awaited: awaited.then(|| now + terms.attempt()),
            next_try: now,
            until: now + terms.ttl(),
            tries: 0,
            open: 0,
            makes_way,
            origin,
            removed: false,
        });
        self.remove_key(id, now);
        self.arm(id);
    }

    fn remove_key(&mut self, id: TicketId, now: Instant) {
        let io_timeout = self.limits.io_timeout;
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        // Counted from the release: a repeated removal keeps the key for no longer than the first.
        let keep = ticket.keep(now);
        let Stage::Releasing(cleanup) = &mut ticket.stage else {
            return;
        };
        let patience = ticket
            .acquire
            .terms
            .attempt()
            .max(FIRST_RETRY)
            .min(io_timeout);
        let pause = pause(cleanup.tries);
        cleanup.tries += 1;
        cleanup.open += 1;
        cleanup.next_try = now + patience + self.jitter.around(pause);
        let makes_way = cleanup.makes_way;
        let (key, token, share) = (
            ticket.acquire.key.clone(),
            ticket.acquire.token,
            ticket.acquire.share,
        );
        let certain = ticket.open.is_empty();
        let after = if seeded!(self, OrderForgotten) {
            Vec::new()
        } else {
            ticket.open.to_vec()
        };
        let op = match share {
            Some(_) => Op::Part {
                key,
                token,
                keep,
                after,
            },
            None => Op::Release {
                key,
                token,
                keep,
                makes_way,
                after,
            },
        };
        let flight = Flight::Release {
            ticket: id,
            certain,
        };
        self.send(op, patience, flight);
    }

    pub(super) fn release_replied(
        &mut self,
        id: TicketId,
        certain: bool,
        result: Result<Reply, Failure>,
        now: Instant,
    ) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        let Stage::Releasing(cleanup) = &mut ticket.stage else {
            return;
        };
        match result {
            Ok(Reply::Released { found, ordered }) => {
                if !found && cleanup.missed(certain, now) && !seeded!(self, GoneIsReleased) {
                    return self.gone(id, now);
                }
                cleanup.removed = true;
                let awaited = cleanup.awaited.take().is_some();
                let pause = pause(cleanup.tries);
                cleanup.next_try = now + self.jitter.around(pause);
                if awaited {
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
            Err(failure) => {
                // A permanent error may come from the middle of a script, after the removal.
                if !failure.executed && failure.retry != Retry::Never {
                    cleanup.open -= 1;
                }
                let pause = match failure.retry {
                    Retry::Now if cleanup.tries == 1 => Duration::ZERO,
                    _ => pause(cleanup.tries),
                };
                cleanup.next_try = now + self.jitter.around(pause);
            }
        }
        self.arm(id);
    }

    pub(super) fn release_due(&mut self, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        let Stage::Releasing(cleanup) = &mut ticket.stage else {
            return;
        };
        if cleanup.awaited.is_some_and(|awaited| awaited <= now) {
            cleanup.awaited = None;
            self.signal(Signal::Released {
                ticket: id,
                removal: Removal::Unknown,
            });
            return self.release_due(id, now);
        }
        if cleanup.until <= now {
            if cleanup.origin != Origin::Abandoned && !cleanup.removed {
                let (key, tries) = (ticket.acquire.key.clone(), cleanup.tries);
                reporter::log(move || {
                    tracing::warn!(
                        key = ?key.name(),
                        tries,
                        "release not confirmed; the lock has expired by now"
                    );
                });
            }
            self.forget(id, now);
        } else if cleanup.next_try <= now {
            self.remove_key(id, now);
        }
    }

    /// The store did not have the lock any more.
    fn gone(&mut self, id: TicketId, now: Instant) {
        if let Some(ticket) = self.tickets.get(&id)
            && let Stage::Releasing(cleanup) = &ticket.stage
            && let Origin::Live { fence, .. } = cleanup.origin
        {
            let key = ticket.acquire.key.clone();
            reporter::log(move || {
                tracing::warn!(
                    key = ?key.name(),
                    fence = fence.map(crate::Fence::get),
                    "lease lost: the store did not have the lock any more when it was released"
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
        if let Some(ticket) = self.tickets.remove(&id)
            && let Stage::Releasing(cleanup) = ticket.stage
            && cleanup.origin != Origin::Abandoned
        {
            self.count_release(cleanup.removed);
        }
        self.shutdown_due(now);
    }
}

impl Cleanup {
    /// Whether an answer at `now` that the lock is gone tells of a loss. Then no request of this
    /// ticket can have removed the key: the store cannot have carried out another try, no acquire
    /// is open, and the key cannot have expired by itself.
    fn missed(&self, certain: bool, now: Instant) -> bool {
        let live = matches!(self.origin, Origin::Live { expires, .. } if now < expires);
        certain && live && self.open == 1
    }
}

/// The pause after `tries` tries.
fn pause(tries: u32) -> Duration {
    FIRST_RETRY
        .saturating_mul(1 << tries.min(10))
        .min(LONGEST_RETRY)
}
