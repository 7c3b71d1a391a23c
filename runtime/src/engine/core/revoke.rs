//! Handling locks that an operator takes away by force.

use super::Core;
use super::lease::Lease;
use super::signal::Signal;
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
    /// If the store's message comes only after the release, it has no effect, because tokens are
    /// not reused.
    pub(crate) fn revoked(&mut self, key: &FullKey, lease: u64, now: Instant) {
        if seeded!(self, RevocationUnnoticed) {
            return;
        }
        let holds = self.tickets.iter().filter(|(_, ticket)| {
            let acquire = ticket.acquire();
            ticket.lease().is_some() && acquire.token.half() == lease && acquire.key == *key
        });
        let held: Vec<_> = holds
            .map(|(id, ticket)| {
                let fence = ticket.lease().and_then(Lease::fence);
                (
                    id,
                    ticket.acquire().key.clone(),
                    ticket.acquire().label,
                    fence,
                )
            })
            .collect();
        for (id, key, label, fence) in held {
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
}
