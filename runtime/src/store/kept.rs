//! Results that a store keeps beside a lock, for calls with `replay`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// SHA-256 of the parameters of a `replay` call. If two calls for one key have different
/// fingerprints, the kept result of one call does not answer the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint(pub(crate) [u8; Self::BYTES]);

/// Kept result of a `replay` call that returned `Ok`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    /// `None` for a call without a fingerprint.
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) json: Box<str>,
}

/// The result that a release stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Path of the function that returned the result; empty for a call without the attribute.
    pub(crate) function: &'static str,
    pub(crate) kept: Arc<Kept>,
    /// Time for which the store keeps the result, from the release.
    pub(crate) stays: Duration,
}

impl Fingerprint {
    const BYTES: usize = 32;
}

impl Kept {
    /// True if the result answers a call with this fingerprint. Also true if the result or the call
    /// has no fingerprint.
    pub(crate) fn answers(&self, asked: Option<Fingerprint>) -> bool {
        match (self.fingerprint, asked) {
            (Some(kept), Some(asked)) => kept == asked,
            _ => true,
        }
    }

    /// Returns the result in the form that servers store: the fingerprint in hexadecimal digits
    /// (empty if there is none), a `:`, and the JSON.
    pub(crate) fn to_text(&self) -> String {
        let digits = self.fingerprint.map_or(0, |_| 2 * Fingerprint::BYTES);
        let mut text = String::with_capacity(digits + 1 + self.json.len());
        for byte in self.fingerprint.iter().flat_map(|print| print.0) {
            for half in [byte >> 4, byte & 15] {
                text.push(char::from(b"0123456789abcdef"[usize::from(half)]));
            }
        }
        text.push(':');
        text.push_str(&self.json);
        text
    }

    /// Parses the output of [`to_text`](Self::to_text). Returns `None` for any other text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (digits, json) = text.split_once(':')?;
        let fingerprint = match digits {
            "" => None,
            digits => Some(Fingerprint::parse(digits)?),
        };
        Some(Self {
            fingerprint,
            json: json.into(),
        })
    }
}

impl Fingerprint {
    fn parse(digits: &str) -> Option<Self> {
        let digits = digits.as_bytes();
        let half = |digit: u8| char::from(digit).to_digit(16);
        let mut bytes = [0; Self::BYTES];
        if digits.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::try_from(half(pair[0])? << 4 | half(pair[1])?).ok()?;
        }
        Some(Self(bytes))
    }
}

/// Hides the fingerprint, because it could reveal the call's parameters, which may be private.
impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(…)")
    }
}

/// Hides the result, which may be private.
impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("bytes", &self.json.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINT: Fingerprint = Fingerprint([0xa5; 32]);

    fn kept(fingerprint: Option<Fingerprint>) -> Kept {
        let json = r#"{"id":"a:b"}"#.into();
        Kept { fingerprint, json }
    }

    /// Fails if a result changes when it is written as text and parsed again.
    #[test]
    fn a_kept_result_can_be_read_back() {
        for kept in [kept(None), kept(Some(PRINT))] {
            assert_eq!(Kept::parse(&kept.to_text()), Some(kept));
        }
        assert_eq!(kept(None).to_text(), r#":{"id":"a:b"}"#);
        assert!(kept(Some(PRINT)).to_text().starts_with("a5a5"));
        for text in ["", "{}", "a5:{}", &format!("{}:1", "x".repeat(64))] {
            assert_eq!(Kept::parse(text), None, "{text}");
        }
    }

    #[test]
    fn only_different_fingerprints_are_refused() {
        let other = Fingerprint([0; 32]);
        assert!(kept(Some(PRINT)).answers(Some(PRINT)));
        assert!(!kept(Some(PRINT)).answers(Some(other)));
        assert!(kept(Some(PRINT)).answers(None) && kept(None).answers(Some(other)));
    }

    #[test]
    fn no_log_shows_a_result() {
        let shown = format!("{:?}", kept(Some(PRINT)));
        assert!(!shown.contains("a:b") && !shown.contains("a5"), "{shown}");
    }
}
