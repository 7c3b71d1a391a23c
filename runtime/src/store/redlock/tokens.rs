//! Which token a call's lock carries on the nodes. Pure.
//!
//! A removal that is on its way can be carried out late, behind an acquire that was sent after it on another connection. So
//! a token for which a removal was sent is never asked for again: the next try of the same call carries a new one.

use std::collections::HashMap;
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::{Nonce, Token};
use crate::store::OpId;

/// At least so many claims are made between sweeps of those that are over.
const SWEEP_EVERY: usize = 1024;

/// One call's try to have a lock, or its lock.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    /// What the nodes are given in the place of the call's own token.
    pub(super) wire: Token,
    /// All acquires that carried `wire`.
    pub(super) asked: Vec<OpId>,
    /// The acquire that is not decided.
    pub(super) undecided: Option<OpId>,
    pub(super) ttl: Duration,
    /// Unless something is late, no key carries `wire` after that.
    until: Instant,
    /// Whether a removal was sent.
    spent: bool,
}

/// A key, and the token that the engine knows.
type Name = (FullKey, Token);

/// All claims.
pub(super) struct TokenMap {
    by_name: HashMap<Name, Claim>,
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

    /// The acquire `op` is under way from now on: what it is to carry, and the earlier one that is not decided.
    pub(super) fn ask(
        &mut self,
        key: &FullKey,
        token: Token,
        op: OpId,
        ttl: Duration,
        now: Instant,
    ) -> (Token, Option<OpId>) {
        self.sweep(now);
        let claim = self.by_name.entry((key.clone(), token)).or_insert(Claim {
            wire: token,
            asked: Vec::new(),
            undecided: None,
            ttl,
            until: now + ttl,
            spent: false,
        });
        if claim.spent {
            claim.wire = Token::random(self.nonce);
            claim.asked.clear();
            claim.spent = false;
        }
        claim.asked.push(op);
        claim.ttl = ttl;
        claim.until = now + ttl;
        (claim.wire, claim.undecided.replace(op))
    }

    /// The acquire `op` is decided.
    pub(super) fn decided(&mut self, key: &FullKey, token: Token, op: OpId) {
        if let Some(claim) = self.by_name.get_mut(&(key.clone(), token))
            && claim.undecided == Some(op)
        {
            claim.undecided = None;
        }
    }

    /// What a renewal is to carry; the key lives longer by it.
    pub(super) fn renew(
        &mut self,
        key: &FullKey,
        token: Token,
        ttl: Duration,
        now: Instant,
    ) -> Token {
        match self.by_name.get_mut(&(key.clone(), token)) {
            Some(claim) => {
                claim.until = now + ttl;
                claim.wire
            }
            // Another store took the lock.
            None => token,
        }
    }

    /// What a removal is to carry, and what went before it. A lock that is not known has `ttl`.
    pub(super) fn remove(
        &mut self,
        key: &FullKey,
        token: Token,
        ttl: Duration,
        now: Instant,
    ) -> Claim {
        match self.by_name.get_mut(&(key.clone(), token)) {
            Some(claim) => {
                claim.spent = true;
                claim.clone()
            }
            None => Claim {
                wire: token,
                asked: Vec::new(),
                undecided: None,
                ttl,
                until: now + ttl,
                spent: true,
            },
        }
    }

    /// Forgets the claims that are over, now and then.
    fn sweep(&mut self, now: Instant) {
        if self.by_name.len() > 2 * self.left_by_sweep + SWEEP_EVERY {
            self.by_name.retain(|_, claim| now < claim.until);
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
    fn a_token_that_was_removed_is_not_asked_for_again() {
        let key = "k".into();
        let token = Token::fixed(TOKEN);
        let mut claims = TokenMap::new();
        let (first, _) = claims.ask(&key, token, OpId(1), TTL, at(0));
        assert_eq!(first, token, "other clients of the same token must know it");
        assert_eq!(
            claims.ask(&key, token, OpId(2), TTL, at(0)),
            (token, Some(OpId(1)))
        );
        assert_eq!(claims.renew(&key, token, TTL, at(1)), token);
        let removed = claims.remove(&key, token, TTL, at(2));
        assert_eq!(
            (removed.wire, removed.asked),
            (token, vec![OpId(1), OpId(2)])
        );
        claims.decided(&key, token, OpId(2));
        let (second, undecided) = claims.ask(&key, token, OpId(3), TTL, at(3));
        assert_eq!(undecided, None);
        assert_ne!(second, token);
        assert_eq!(claims.renew(&key, token, TTL, at(3)), second);
        let removed = claims.remove(&key, token, TTL, at(3));
        assert_eq!((removed.wire, removed.asked), (second, vec![OpId(3)]));
    }

    #[test]
    fn claims_that_are_over_are_forgotten() {
        let key = "k".into();
        let mut claims = TokenMap::new();
        for number in 0..10_000 {
            claims.ask(
                &key,
                Token::fixed(number.into()),
                OpId(number),
                TTL,
                at(number),
            );
        }
        let kept = claims.by_name.len();
        assert!(kept <= 2 * SWEEP_EVERY, "{kept} kept");
    }
}
