//! The random value that proves who holds a lock.

use std::fmt;

/// 128 random bits, new for every acquisition.
///
/// Whoever knows it can release the lock, so it shows in no `Debug` text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Token(u128);

impl Token {
    #[cfg(feature = "redis")]
    pub(crate) fn random() -> Self {
        Self(rand::random())
    }

    /// Without a store that other processes share, a number that this process uses once will do.
    #[cfg(not(feature = "redis"))]
    pub(crate) fn random() -> Self {
        use std::sync::atomic::{AtomicU64, Ordering};

        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed).into())
    }

    /// A token for tests of the pure core.
    #[cfg(test)]
    pub(crate) fn fixed(number: u128) -> Self {
        Self(number)
    }

    /// 32 hexadecimal digits.
    #[cfg(feature = "redis")]
    pub(crate) fn hex(self) -> String {
        format!("{:032x}", self.0)
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
        assert_ne!(Token::random(), Token::random());
        assert_eq!(format!("{:?}", Token::fixed(0xabc)), "Token(…)");
    }
}
