//! The tokens that locks carry on the nodes. Does no I/O.
//!
//! After a removal was sent for a token, no acquire carries that token again: the next attempt of
//! the same call gets a new token. The reason is that a node may carry out the removal late, after
//! an acquire that was sent later on another connection. If this acquire had the token of the
//! removal, the removal would remove the new lock.

use std::collections::HashMap;
use std::mem;
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::{Nonce, Token};
use crate::store::OpId;

/// Expired entries are swept out once the map has more than twice the entries that the last sweep
/// left, plus this number. So the cost of a sweep is spread over many requests.
const SWEEP_EVERY: usize = 1024;

/// A lock that a call holds or tries to take.
#[derive(Debug, Clone)]
pub(super) struct TokenEntry {
    /// The token sent to the nodes instead of the call's own token.
    pub(super) wire: Token,
    /// All acquires that were sent with `wire`.
    pub(super) asked: Vec<OpId>,
    /// The acquire that the nodes have not decided yet.
    pub(super) undecided: Option<OpId>,
    pub(super) ttl: Duration,
    /// Time at which the key expires on all nodes that carry out the requests at once. A node that
    /// carries out a request late may have the key for longer.
    until: Instant,
    /// True if a removal was sent for `wire`.
    spent: bool,
    /// True if a node has reported that the lock with the token `wire` was taken away by force.
    revoked: bool,
}

/// A key, and the token by which the engine knows the lock.
type Name = (FullKey, Token);

/// The tokens of all locks of the pool.
pub(super) struct TokenMap {
    by_name: HashMap<Name, TokenEntry>,
    nonce: Nonce,
    left_by_sweep: usize,
}

impl TokenMap {
    pub(super) fn new() -> Self {
        Self {
            by_name: HashMap::new(),
            nonce: Nonce::new(),
            left_by_sweep: 0,
        }
    }

    /// Records that the acquire `op` is sent. Returns the token to send, and the call's earlier
    /// acquire, if the nodes have not decided it yet.
    pub(super) fn ask(
        &mut self,
        key: &FullKey,
        token: Token,
        op: OpId,
        ttl: Duration,
        now: Instant,
    ) -> (Token, Option<OpId>) {
        self.sweep(now);
        let entry = self
            .by_name
            .entry((key.clone(), token))
            .or_insert(TokenEntry {
                wire: token,
                asked: Vec::new(),
                undecided: None,
                ttl,
                until: now + ttl,
                spent: false,
                revoked: false,
            });
        if entry.spent {
            entry.wire = Token::random(self.nonce);
            entry.asked.clear();
            entry.spent = false;
        }
        entry.revoked = false;
        entry.asked.push(op);
        entry.ttl = ttl;
        entry.until = now + ttl;
        (entry.wire, entry.undecided.replace(op))
    }

    /// Records that the nodes have decided the acquire `op`.
    pub(super) fn decided(&mut self, key: &FullKey, token: Token, op: OpId) {
        if let Some(entry) = self.by_name.get_mut(&(key.clone(), token))
            && entry.undecided == Some(op)
        {
            entry.undecided = None;
        }
    }

    /// Records that a renewal extends the life of the key. Returns the token to send.
    pub(super) fn renew(
        &mut self,
        key: &FullKey,
        token: Token,
        ttl: Duration,
        now: Instant,
    ) -> Token {
        match self.by_name.get_mut(&(key.clone(), token)) {
            Some(entry) => {
                entry.until = now + ttl;
                entry.wire
            }
            // The lock is unknown here, for example because another instance of the store took it.
            None => token,
        }
    }

    /// Records that a removal is sent. Returns an entry with the token to send, and with the
    /// acquires sent before the removal. For an unknown lock, returns a new entry with `ttl`.
    pub(super) fn remove(
        &mut self,
        key: &FullKey,
        token: Token,
        ttl: Duration,
        now: Instant,
    ) -> TokenEntry {
        match self.by_name.get_mut(&(key.clone(), token)) {
            Some(entry) => {
                entry.spent = true;
                entry.clone()
            }
            None => TokenEntry {
                wire: token,
                asked: Vec::new(),
                undecided: None,
                ttl,
                until: now + ttl,
                spent: true,
                revoked: false,
            },
        }
    }

    /// Records that a node has taken the lock away by force. `lease` is one half of the token that
    /// the lock has on the nodes. Returns the token by which the engine knows the lock; none if
    /// another node has reported this before.
    pub(super) fn revoked(&mut self, key: &FullKey, lease: u64) -> Option<Token> {
        let mut entries = self.by_name.iter_mut();
        let ((_, token), entry) =
            entries.find(|((known, _), entry)| known == key && entry.wire.half() == lease)?;
        let before = mem::replace(&mut entry.revoked, true);
        (!before).then_some(*token)
    }

    /// Removes expired entries, if the map has grown enough since the last time.
    fn sweep(&mut self, now: Instant) {
        if self.by_name.len() > 2 * self.left_by_sweep + SWEEP_EVERY {
            self.by_name.retain(|_, entry| now < entry.until);
            self.left_by_sweep = self.by_name.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: u128 = 7;
    const TTL: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(1) + Duration::from_secs(seconds)
    }

    #[test]
    fn a_removed_token_is_not_used_again() {
        let key = "k".into();
        let token = Token::fixed(TOKEN);
        let mut tokens = TokenMap::new();
        let (first, _) = tokens.ask(&key, token, OpId(1), TTL, at(0));
        assert_eq!(first, token, "other clients of the same token must know it");
        assert_eq!(
            tokens.ask(&key, token, OpId(2), TTL, at(0)),
            (token, Some(OpId(1)))
        );
        assert_eq!(tokens.renew(&key, token, TTL, at(1)), token);
        let removed = tokens.remove(&key, token, TTL, at(2));
        assert_eq!(
            (removed.wire, removed.asked),
            (token, vec![OpId(1), OpId(2)])
        );
        tokens.decided(&key, token, OpId(2));
        let (second, undecided) = tokens.ask(&key, token, OpId(3), TTL, at(3));
        assert_eq!(undecided, None);
        assert_ne!(second, token);
        assert_eq!(tokens.renew(&key, token, TTL, at(3)), second);
        let removed = tokens.remove(&key, token, TTL, at(3));
        assert_eq!((removed.wire, removed.asked), (second, vec![OpId(3)]));
    }

    #[test]
    fn expired_claims_are_forgotten() {
        let key = "k".into();
        let mut tokens = TokenMap::new();
        for number in 0..10_000 {
            tokens.ask(
                &key,
                Token::fixed(number.into()),
                OpId(number),
                TTL,
                at(number),
            );
        }
        let kept = tokens.by_name.len();
        assert!(kept <= 2 * SWEEP_EVERY, "{kept} kept");
    }
}
