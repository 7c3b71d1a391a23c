//! Lock keys: how values are written into them, and what they may not be.

use std::fmt::{self, Write as _};

use crate::LockError;

/// The longest key, in bytes, without the namespace.
pub(crate) const MAX_LEN: usize = 512;

/// Keys that begin so are leasehold's own; the encoding of values never produces it.
pub(crate) const RESERVED: &str = "%leasehold";

/// A key while it is being built from a template.
///
/// Literal text is taken as it is; inserted values are percent-encoded where they contain `%`, `:`, `{`,
/// `}`, white space or control characters, so that different values never give the same key.
#[derive(Debug)]
pub struct Key {
    text: String,
    error: Option<String>,
}

impl Key {
    /// An empty key.
    #[expect(clippy::new_without_default, reason = "only expanded code builds keys")]
    pub fn new() -> Self {
        Self {
            text: String::with_capacity(48),
            error: None,
        }
    }

    /// A key given as an expression, taken as it is.
    pub fn expression(value: &(impl fmt::Display + ?Sized)) -> Self {
        let mut key = Self::new();
        if write!(key.text, "{value}").is_err() {
            key.error = Some("its `Display` returned an error".to_owned());
        }
        key
    }

    /// Appends literal text of the template.
    pub fn literal(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Appends the value of the placeholder `<name>`, encoded.
    pub fn part(&mut self, name: &'static str, value: &(impl fmt::Display + ?Sized)) {
        let before = self.text.len();
        let written = write!(Encoder(&mut self.text), "{value}");
        if self.error.is_some() {
            return;
        }
        if written.is_err() {
            self.error = Some(format!("the `Display` of `<{name}>` returned an error"));
        } else if self.text.len() == before {
            self.error = Some(format!(
                "the value of `<{name}>` is empty, and all calls with an empty value would share one lock; \
                 check it before the call"
            ));
        }
    }

    /// The finished key, or what is wrong with it.
    pub(crate) fn finish(self) -> Result<String, LockError> {
        match self.error {
            Some(reason) => Err(invalid(&self.text, reason)),
            None => check(self.text),
        }
    }
}

/// Refuses an empty key, one that is too long, and one of leasehold's own.
pub(crate) fn check(key: String) -> Result<String, LockError> {
    let reason = if key.is_empty() {
        "it is empty; name what is locked, such as `order:42`".to_owned()
    } else if key.len() > MAX_LEN {
        format!(
            "it has {} bytes and at most {MAX_LEN} are allowed; use an id or a hash of the value",
            key.len()
        )
    } else if key.starts_with(RESERVED) {
        format!("keys that begin with `{RESERVED}` are leasehold's own; use another name")
    } else {
        return Ok(key);
    };
    Err(invalid(&key, reason))
}

fn invalid(key: &str, reason: String) -> LockError {
    LockError::InvalidKey {
        key: key.chars().take(64).collect(),
        reason,
    }
}

/// Writes a value with the characters that structure a key percent-encoded.
struct Encoder<'a>(&'a mut String);

impl fmt::Write for Encoder<'_> {
    fn write_str(&mut self, value: &str) -> fmt::Result {
        for character in value.chars() {
            if is_structural(character) {
                let mut buffer = [0; 4];
                for byte in character.encode_utf8(&mut buffer).bytes() {
                    write!(self.0, "%{byte:02X}")?;
                }
            } else {
                self.0.push(character);
            }
        }
        Ok(())
    }
}

fn is_structural(character: char) -> bool {
    matches!(character, '%' | ':' | '{' | '}')
        || character.is_ascii_control()
        || character.is_whitespace()
}
