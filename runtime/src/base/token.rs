//! The random value that identifies the holder of a lock at the store.

use std::fmt;

#[cfg(feature = "__remote")]
use crate::base::seeded::seeded;

/// 128 random bits, new for every acquisition.
///
/// A client that knows the token can release the lock, so no `Debug` text shows it. Stored as
/// bytes, because an aligned integer would add padding to each lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Token([u8; 16]);

/// Random bits that distinguish a pool's tokens from those of every other process.
///
/// A `fork` copies the random number generator of a thread. Without these bits, both processes
/// would then create the same tokens, and treat each other's locks as their own. A pool cannot be
/// used after a `fork`, so each process creates its own pools. Therefore a pool takes random bits
/// from the system only once.
#[derive(Clone, Copy)]
pub(crate) struct Nonce(#[cfg(feature = "__remote")] u128);

impl Nonce {
    #[cfg(feature = "__remote")]
    pub(crate) fn new() -> Self {
        let mut generator = rand::rng();
        // If reseeding fails, the generator keeps its state, which differs between processes unless
        // one is a `fork` of the other.
        let _ = generator.reseed();
        Self(rand::Rng::next_u64(&mut generator).into())
    }

    #[cfg(not(feature = "__remote"))]
    pub(crate) fn new() -> Self {
        Self()
    }
}

impl Token {
    const fn of(bits: u128) -> Self {
        Self(bits.to_be_bytes())
    }

    #[cfg(feature = "__remote")]
    pub(crate) fn random(nonce: Nonce) -> Self {
        if seeded!(TokensRepeat) {
            return Self::of(1);
        }
        Self::of(rand::random::<u128>() ^ nonce.0)
    }

    /// Returns the next number. This build needs no random bits: it has no store that processes
    /// share, so only this process uses its tokens.
    #[cfg(not(feature = "__remote"))]
    pub(crate) fn random(_: Nonce) -> Self {
        use std::sync::atomic::{AtomicU64, Ordering};

        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self::of(NEXT.fetch_add(1, Ordering::Relaxed).into())
    }

    /// Returns the token that names a node of a session. It consists of the hash of the lock's key
    /// and the number `at`, by which the names of this lock's nodes differ. Unlike other tokens, it
    /// may be easy to guess.
    #[cfg(feature = "etcd")]
    pub(crate) fn numbered(hash: u64, at: u64) -> Self {
        Self::of((u128::from(hash) << 64) | u128::from(at))
    }

    /// Returns a token for tests.
    #[cfg(any(test, all(feature = "__test", feature = "replay")))]
    pub(crate) const fn fixed(number: u128) -> Self {
        Self::of(number)
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn bits(self) -> u128 {
        u128::from_be_bytes(self.0)
    }

    /// Returns half of the token's bits. Messages identify a lease by this half, because a client
    /// that reads only this half cannot release or renew the lock.
    #[expect(clippy::cast_possible_truncation, reason = "it is to be half")]
    pub(crate) fn half(self) -> u64 {
        u128::from_be_bytes(self.0) as u64
    }

    pub(crate) const DIGITS: usize = 32;

    /// Returns the token as [`DIGITS`](Self::DIGITS) hexadecimal digits.
    pub(crate) fn digits(self) -> [u8; Self::DIGITS] {
        // Every request needs the digits, and formatting with `{:032x}` takes ten times as long.
        let mut digits = [0; Self::DIGITS];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            let half = |half: u8| b"0123456789abcdef"[usize::from(half)];
            pair.copy_from_slice(&[half(byte >> 4), half(byte & 15)]);
        }
        digits
    }

    /// Returns the digits as text.
    pub(crate) fn hex(self) -> String {
        self.digits().map(char::from).iter().collect()
    }

    /// Parses a token from its digits.
    #[cfg(any(feature = "serde", feature = "__session"))]
    pub(crate) fn parse(digits: &str) -> Option<Self> {
        let is_hex = digits.len() == Self::DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let bits = is_hex.then(|| u128::from_str_radix(digits, 16).ok())??;
        Some(Self::of(bits))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_are_hidden_in_debug_output() {
        let nonce = Nonce::new();
        assert_ne!(Token::random(nonce), Token::random(nonce));
        assert_eq!(format!("{:?}", Token::fixed(0xabc)), "Token(…)");
    }

    #[test]
    fn a_token_is_written_with_32_digits() {
        let token = Token::fixed(0x0123_4567_89ab_cdef_0000_0000_0000_00ff);
        assert_eq!(token.hex(), "0123456789abcdef00000000000000ff");
    }
}
