//! The random value that proves who holds a lock.

use std::fmt;

#[cfg(feature = "redis")]
use crate::base::seeded::seeded;

/// 128 random bits, new for every acquisition.
///
/// Whoever knows it can release the lock, so it shows in no `Debug` text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Token(u128);

/// What a pool's tokens differ in from those of every other process.
///
/// The generator of a thread is copied by `fork`, and two processes would draw the same tokens and so each take
/// the other's locks for its own. A pool does not survive a `fork`, so it is enough to ask the system once for each.
#[derive(Clone, Copy)]
pub(crate) struct Nonce(#[cfg(feature = "redis")] u128);

impl Nonce {
    #[cfg(feature = "redis")]
    pub(crate) fn new() -> Self {
        let mut generator = rand::rng();
        // An error leaves the generator as it was, which differs between processes that were not forked.
        let _ = generator.reseed();
        Self(rand::Rng::next_u64(&mut generator).into())
    }

    #[cfg(not(feature = "redis"))]
    pub(crate) fn new() -> Self {
        Self()
    }
}

impl Token {
    #[cfg(feature = "redis")]
    pub(crate) fn random(nonce: Nonce) -> Self {
        if seeded!(TokensRepeat) {
            return Self(1);
        }
        Self(rand::random::<u128>() ^ nonce.0)
    }

    /// Without a store that other processes share, a number that this process uses once will do.
    #[cfg(not(feature = "redis"))]
    pub(crate) fn random(_: Nonce) -> Self {
        use std::sync::atomic::{AtomicU64, Ordering};

        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed).into())
    }

    /// A token for tests of the pure core.
    #[cfg(test)]
    pub(crate) fn fixed(number: u128) -> Self {
        Self(number)
    }

    #[cfg(feature = "redis")]
    pub(crate) const DIGITS: usize = 32;

    /// [`DIGITS`](Self::DIGITS) hexadecimal digits.
    #[cfg(feature = "redis")]
    pub(crate) fn digits(self) -> [u8; Self::DIGITS] {
        // For each request: `{:032x}` takes ten times as long.
        let mut digits = [0; Self::DIGITS];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0.to_be_bytes()) {
            let half = |half: u8| b"0123456789abcdef"[usize::from(half)];
            pair.copy_from_slice(&[half(byte >> 4), half(byte & 15)]);
        }
        digits
    }

    /// The same as text.
    #[cfg(feature = "redis")]
    pub(crate) fn hex(self) -> String {
        self.digits().map(char::from).iter().collect()
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
    fn tokens_differ_and_do_not_show() {
        let nonce = Nonce::new();
        assert_ne!(Token::random(nonce), Token::random(nonce));
        assert_eq!(format!("{:?}", Token::fixed(0xabc)), "Token(…)");
    }

    #[test]
    #[cfg(feature = "redis")]
    fn a_token_is_written_with_32_digits() {
        let token = Token::fixed(0x0123_4567_89ab_cdef_0000_0000_0000_00ff);
        assert_eq!(token.hex(), "0123456789abcdef00000000000000ff");
    }
}
