//! The server: one key, one value, one expiry.

use std::sync::Arc;
use std::time::Duration;

use super::world::{Caller, Entry, SERVER_TTL_PER_MILLE, State, World};
use crate::Fence;
use crate::store::{Op, Renewal, Reply};
use crate::token::Token;

impl World {
    pub(super) fn serve(&mut self, op: &Op) -> Reply {
        match op {
            Op::Acquire {
                key, token, ttl, ..
            } => self.serve_acquire(key, *token, *ttl),
            Op::Renew(renewals) => {
                Reply::Renewed(renewals.iter().map(|one| self.serve_renew(one)).collect())
            }
            Op::Release { key, token, after } => {
                let found = self.live(key).is_some_and(|entry| entry.token == *token);
                if found {
                    self.entries.remove(key);
                }
                Reply::Released {
                    found,
                    ordered: after.is_empty(),
                }
            }
        }
    }

    pub(super) fn serve_acquire(&mut self, key: &Arc<str>, token: Token, ttl: Duration) -> Reply {
        let now = self.now;
        if let Some(entry) = self.live(key) {
            if entry.token != token {
                let left = Some(entry.expires.since(now));
                return Reply::Held { left };
            }
            entry.expires = now + on_server(ttl);
            let fence = Some(entry.fence);
            return Reply::Acquired { fence };
        }
        self.check_free(key, token);
        self.last_fence += 1;
        let fence = Fence::new(self.last_fence);
        let expires = now + on_server(ttl);
        let entry = Entry {
            token,
            fence,
            expires,
        };
        self.entries.insert(Arc::clone(key), entry);
        let before = self.fences.insert(Arc::clone(key), fence);
        assert!(before < Some(fence));
        Reply::Acquired { fence: Some(fence) }
    }

    /// The server gives the key away: nobody else may still run inside it, now or later.
    pub(super) fn check_free(&mut self, key: &Arc<str>, token: Token) {
        let now = self.now;
        let inside = |caller: &Caller| {
            caller.key == *key
                && caller.token != token
                && !self.stolen.contains(&caller.token)
                && matches!(caller.state, State::Inside(end) if now < end)
        };
        if self
            .nodes
            .iter()
            .flat_map(|node| node.callers.values())
            .any(inside)
        {
            self.violation(format!(
                "the server gave {key} away while a body may still be polled inside it"
            ));
        }
    }

    pub(super) fn serve_renew(&mut self, renewal: &Renewal) -> bool {
        let now = self.now;
        match self.live(&renewal.key) {
            Some(entry) if entry.token == renewal.token => {
                entry.expires = now + on_server(renewal.ttl);
                true
            }
            _ => false,
        }
    }

    pub(super) fn live(&mut self, key: &Arc<str>) -> Option<&mut Entry> {
        let now = self.now;
        self.entries
            .get_mut(key)
            .filter(|entry| now < entry.expires)
    }
}

fn on_server(ttl: Duration) -> Duration {
    ttl * SERVER_TTL_PER_MILLE / 1000
}
