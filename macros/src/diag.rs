//! Collects all errors and reports them together, each with advice on the fix.

use std::cell::RefCell;

use proc_macro2::{Span, TokenStream};

/// One error: the mistake, and advice on the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) what: String,
    pub(crate) help: Option<String>,
}

impl Message {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            help: None,
        }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds the help "did you mean …?" with the name `close`. If `close` is `None`, adds the help
    /// `otherwise`.
    pub(crate) fn suggest(self, close: Option<String>, otherwise: impl FnOnce() -> String) -> Self {
        match close {
            Some(close) => self.help(format!("did you mean {close}?")),
            None => self.help(otherwise()),
        }
    }

    fn text(&self) -> String {
        match &self.help {
            Some(help) => format!("{}\nhelp: {help}", self.what),
            None => self.what.clone(),
        }
    }
}

/// Span at which an error is shown, and the reason why the attribute cannot be used there.
pub(crate) type Refusal = (Span, Message);

/// Collection of errors, so that the user sees all of them at once.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    /// The errors so far. `None` after `finish` has taken them out.
    errors: RefCell<Option<Vec<syn::Error>>>,
}

impl Diagnostics {
    pub(crate) fn new() -> Self {
        Self {
            errors: RefCell::new(Some(Vec::new())),
        }
    }

    pub(crate) fn error(&self, span: Span, message: &Message) {
        self.syntax(syn::Error::new(span, message.text()));
    }

    /// Reports an error with syn's text, for invalid Rust.
    pub(crate) fn syntax(&self, error: syn::Error) {
        if let Some(errors) = self.errors.borrow_mut().as_mut() {
            errors.push(error);
        }
    }

    /// Returns `spec` if there was no error. Otherwise returns the tokens that report all errors.
    ///
    /// If there is neither a spec nor an error, a check has failed without a report. This is an
    /// error, too, because otherwise the function would run without its lock.
    pub(crate) fn finish<T>(self, spec: Option<T>) -> Result<T, TokenStream> {
        let errors = self.errors.take().unwrap_or_default();
        match (errors.is_empty(), spec) {
            (true, Some(spec)) => Ok(spec),
            (true, None) => Err(syn::Error::new(
                Span::call_site(),
                "`#[distributed_lock]` could not read this function",
            )
            .into_compile_error()),
            (false, _) => Err(errors.iter().map(syn::Error::to_compile_error).collect()),
        }
    }
}

impl Drop for Diagnostics {
    fn drop(&mut self) {
        let reported = self.errors.borrow().is_none() || std::thread::panicking();
        assert!(reported, "errors were collected and not reported");
    }
}

/// Returns the candidate that `name` was probably meant to be.
pub(crate) fn closest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let limit = name.chars().count().max(candidate.chars().count()).max(3) / 3;
            let distance = if shares_a_word(name, candidate) {
                1
            } else {
                distance(&name.to_lowercase(), &candidate.to_lowercase())
            };
            (distance <= limit).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// True if one name is a word of the other, as in `order` and `order_id`.
fn shares_a_word(one: &str, other: &str) -> bool {
    let is_word_of = |word: &str, name: &str| word.len() > 1 && name.split('_').any(|w| w == word);
    one != other && (is_word_of(one, other) || is_word_of(other, one))
}

/// Returns the number of insertions, deletions, replacements and swaps of neighbours that lead from
/// one text to the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![vec![0; to.len() + 1]; from.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=from.len() {
        for j in 1..=to.len() {
            let replace = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_suggested() {
        let options = [
            "key", "ttl", "watchdog", "wait", "on_lost", "on_error", "order_id",
        ];
        for (typed, meant) in [
            ("tll", Some("ttl")),
            ("tl", Some("ttl")),
            ("TTL", Some("ttl")),
            ("watch_dog", Some("watchdog")),
            ("watdhcog", Some("watchdog")),
            ("onlost", Some("on_lost")),
            ("oder_id", Some("order_id")),
            ("order", Some("order_id")),
            ("id", Some("order_id")),
            ("colour", None),
            ("x", None),
        ] {
            assert_eq!(closest(typed, options), meant, "{typed}");
        }
    }

    #[test]
    fn a_swap_of_adjacent_letters_is_one_edit() {
        assert_eq!(distance("tll", "ttl"), 1);
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn every_error_is_reported() {
        let diagnostics = Diagnostics::new();
        diagnostics.error(Span::call_site(), &Message::new("one"));
        diagnostics.error(Span::call_site(), &Message::new("two").help("do this"));
        let tokens = diagnostics.finish(Some(())).unwrap_err().to_string();
        assert!(tokens.contains("\"one\""), "{tokens}");
        assert!(tokens.contains("\"two\\nhelp: do this\""), "{tokens}");
    }

    #[test]
    fn a_missing_spec_is_an_error() {
        assert!(Diagnostics::new().finish(None::<()>).is_err());
        assert!(Diagnostics::new().finish(Some(())).is_ok());
    }

    #[test]
    #[should_panic(expected = "not reported")]
    fn unreported_errors_panic() {
        drop(Diagnostics::new());
    }
}
