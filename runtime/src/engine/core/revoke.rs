//! A lock that was taken away by force.

use super::Core;
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::reporter;
use crate::base::seeded::seeded;

impl Core {
    /// The store has taken `key` away from the token with the half `lease`: the call that has it
    /// now loses it. The store keeps the key taken until that call has released it.
    ///
    /// A message that comes late finds no such lease: tokens are not used again.
    pub(crate) fn revoked(&mut self, key: &FullKey, lease: u64, now: Instant) {
        if seeded!(self, RevocationUnheard) {
            return;
        }
        let holds = self.tickets.iter().filter(|(_, ticket)| {
            let acquire = ticket.acquire();
            ticket.lease().is_some() && acquire.token.half() == lease && acquire.key == *key
        });
        let held: Vec<_> = holds
            .map(|(id, ticket)| (id, ticket.acquire().key.clone()))
            .collect();
        for (id, key) in held {
            reporter::log(move || {
                tracing::warn!(key = ?key.name(), "the lock was taken away by `force_release`");
            });
            self.lose(id, now);
            self.arm(id);
        }
    }
}
