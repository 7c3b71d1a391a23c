//! Handling locks that an operator takes away by force.

use super::Core;
use super::signal::Signal;
use super::ticket::TicketId;
use crate::base::clock::Instant;
use crate::base::codes;
use crate::base::full_key::FullKey;
use crate::base::reporter;
use crate::base::seeded::seeded;
use crate::fence::Fence;

impl Core {
    /// Ends the lease of the call that holds `key`, after the store's message that it has taken the
    /// key away from this call. `lease` is half of the call's token, and identifies the call. Until
    /// the call has released the key, the store keeps other clients out, for at most three seconds.
    ///
    /// If the store's message is read before the answer to the acquire, the lease ends with its
    /// grant. If it comes only after the release, it has no effect, because tokens are not reused.
    pub(crate) fn revoked(&mut self, key: &FullKey, lease: u64, now: Instant) {
        if seeded!(self, RevocationUnnoticed) {
            return;
        }
        let named = self.tickets.iter().filter(|(_, ticket)| {
            let acquire = ticket.acquire();
            acquire.token.half() == lease && acquire.key == *key
        });
        let named: Vec<_> = named.map(|(id, _)| id).collect();
        for id in named {
            match self.tickets.get_mut(id) {
                Some(ticket) if ticket.is_acquiring() => {
                    ticket.revoked = Some(self.requests.last());
                }
                _ => self.taken_away(id, now),
            }
        }
    }

    /// Ends the lease of a lock that was taken away by force, if the ticket has a lease.
    pub(super) fn taken_away(&mut self, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get(id) else {
            return;
        };
        let Some(lease) = ticket.lease() else {
            return;
        };
        let (fence, label) = (lease.fence(), ticket.acquire().label);
        let key = ticket.acquire().key.clone();
        reporter::log(move || {
            tracing::warn!(
                code = codes::FORCED_RELEASE,
                lock.template = label.template(),
                key = ?key.name(),
                fence = fence.map(Fence::get),
                "the lock was taken away by `force_release`"
            );
        });
        self.signal(Signal::TakenAway(id));
        self.lose(id, now);
        self.arm(id);
    }
}
