//! The options at the end of a URL, `?name=value&…`.

use std::borrow::Cow;
use std::path::PathBuf;

use crate::base::digits::percent_decoded;
use crate::error::LockError;

/// The options of a URL that `take` has not removed yet. Values are percent-encoded, as in the URL.
#[derive(Debug, Clone)]
pub(crate) struct UrlOptions<'a> {
    pairs: Vec<(&'a str, &'a str)>,
}

/// Splits a URL into the part before its options, and the options.
pub(crate) fn split(url: &str) -> (&str, UrlOptions<'_>) {
    let (base, text) = url.split_once('?').unwrap_or((url, ""));
    let pairs = text
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let pairs = pairs.collect();
    (base, UrlOptions { pairs })
}

/// Takes the option `password_file` out of `url`. Returns the rest of the URL, and the file.
pub(crate) fn password_file(url: &str) -> Result<(Cow<'_, str>, Option<PathBuf>), LockError> {
    let (base, mut options) = split(url);
    let Some(path) = options.take("password_file") else {
        return Ok((Cow::Borrowed(url), None));
    };
    match percent_decoded(path).filter(|path| !path.is_empty()) {
        Some(path) => {
            let url = format!("{base}{}", options.rest());
            Ok((Cow::Owned(url), Some(path.into())))
        }
        None => Err(LockError::config(
            "the `password_file` of the lock store's URL is no path; write a percent-encoded path, such as `password_file=/run/secrets/redis`",
        )),
    }
}

/// Returns `host:port` as in a URL, where an IPv6 address is in brackets.
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

impl<'a> UrlOptions<'a> {
    /// Removes the option `name` and returns its value. If the URL has this option twice, the last
    /// value counts.
    pub(crate) fn take(&mut self, name: &str) -> Option<&'a str> {
        let mut value = None;
        self.pairs.retain(|(found, given)| {
            if *found == name {
                value = Some(*given);
            }
            *found != name
        });
        value
    }

    /// Returns the remaining options as the end of a URL, with a `?` before the first. Empty if
    /// none remain.
    pub(crate) fn rest(&self) -> String {
        let mut rest = String::new();
        for (name, value) in &self.pairs {
            rest.push(if rest.is_empty() { '?' } else { '&' });
            rest.extend([name, "=", value]);
        }
        rest
    }

    /// Fails if any option remains, except the options in `left`, which a later parser reads.
    /// `known` lists all options of the store, for the error text.
    pub(crate) fn finish(&self, known: &[&str], left: &[&str]) -> Result<(), LockError> {
        let mut pairs = self.pairs.iter();
        let Some((name, _)) = pairs.find(|(name, _)| !left.contains(name)) else {
            return Ok(());
        };
        // The error shows the name only if it looks like an option. Any other name may be the end
        // of a password that contains a `?`.
        let shown = name.len() <= 32 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        let name = if shown { name } else { "…" };
        let known: Vec<_> = known.iter().map(|known| format!("`{known}`")).collect();
        Err(LockError::config(format!(
            "the lock store's URL has the unknown option `{name}` after its `?`; it can have {}; \
             write %3F for a `?` elsewhere",
            known.join(", ")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_by_name() {
        let (base, mut query) = split("redis://h/?replicas=2&db=1&replicas=all");
        assert_eq!(base, "redis://h/");
        assert_eq!(query.take("replicas"), Some("all"));
        assert!(query.finish(&["replicas"], &[]).is_err());
        assert!(query.finish(&["replicas"], &["db"]).is_ok());
        assert_eq!(query.rest(), "?db=1");
        assert_eq!(query.take("db"), Some("1"));
        assert!(query.finish(&["replicas"], &[]).is_ok());
        assert_eq!(split("redis://h/").1.take("db"), None);
    }

    #[test]
    fn possible_passwords_are_not_shown() {
        let (_, query) = split("redis://u:p?Hunter2@h/");
        let text = query.finish(&["db"], &[]).unwrap_err().to_string();
        assert!(!text.contains("Hunter2") && text.contains("%3F"), "{text}");
    }
}
