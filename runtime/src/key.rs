//! Lock keys: the encoding of inserted values, and the limits of keys.

use std::fmt::{self, Write as _};

use crate::base::seeded::seeded;
use crate::error::LockError;

/// Maximum length of a key without the namespace, in bytes.
pub(crate) const MAX_LEN: usize = 512;

/// The reserved word in leasehold's own keys, such as those of queues and fences. The encoding of
/// values never produces the word, because it encodes `%`.
///
/// Each of these keys is `namespace:%leasehold:…`. In a Redis Cluster, if the namespace has a
/// brace, the hash tag comes first: `{tag}:namespace:%leasehold:…`. So no namespace may contain the
/// word, and no lock's key may begin with it or have it between two colons.
pub(crate) const RESERVED: &str = "%leasehold";

/// Maximum length of a namespace, in bytes.
const MAX_NAMESPACE: usize = 128;

/// Refuses a namespace that is too long, has control characters, or could turn a key into one of
/// leasehold's own.
pub(crate) fn check_namespace(namespace: &str) -> Result<(), LockError> {
    if namespace.len() > MAX_NAMESPACE || namespace.chars().any(char::is_control) {
        return Err(LockError::config(
            "a namespace has at most 128 bytes and no control characters; choose a short name such as `shop`",
        ));
    }
    if namespace.contains(RESERVED) {
        return Err(LockError::config(format!(
            "the namespace `{namespace}` contains `{RESERVED}`, which is reserved for leasehold's \
             own keys; leave it out"
        )));
    }
    Ok(())
}

/// True if a key could be one of leasehold's own, in any namespace.
fn is_reserved(key: &str) -> bool {
    // Most keys have no `%`, and a byte is found faster than a word.
    if !key.as_bytes().contains(&b'%') {
        return false;
    }
    let parts = || key.match_indices(RESERVED);
    key.starts_with(RESERVED)
        || parts()
            .any(|(at, word)| key[..at].ends_with(':') && key[at + word.len()..].starts_with(':'))
}

/// A key while it is being built from a template.
///
/// Literal text is not changed. Inserted values are percent-encoded where they contain `%`, `:`,
/// `{`, `}`, white space or control characters. So different values never give the same key.
#[derive(Debug)]
pub struct Key {
    text: String,
    error: Option<String>,
}

impl Key {
    /// Creates an empty key.
    #[expect(clippy::new_without_default, reason = "only expanded code builds keys")]
    pub fn new() -> Self {
        Self {
            text: String::with_capacity(48),
            error: None,
        }
    }

    /// Creates a key from an expression, whose text is not changed. If the text contains a
    /// placeholder such as `<id>` for one of `arguments`, the key is invalid, because nothing fills
    /// the placeholder. `arguments` has the names of the function's arguments. It is empty if the
    /// expression uses one of them except `self`, because then the text depends on the call.
    pub fn expression(
        value: &(impl fmt::Display + ?Sized),
        arguments: &'static [&'static str],
    ) -> Self {
        Self::of_text(&value, arguments)
    }

    /// Creates a key from the text of `value`. Takes a trait object, so that this code is compiled
    /// once for all types of values.
    fn of_text(value: &dyn fmt::Display, arguments: &'static [&'static str]) -> Self {
        let mut key = Self::new();
        let written = write!(Limited(&mut key.text), "{value}");
        if written.is_err() && key.text.len() <= MAX_LEN {
            key.error = Some("its `Display` returned an error".to_owned());
        } else if let Some(placeholder) = unfilled(&key.text, arguments) {
            key.error = Some(format!(
                "nothing fills the placeholder `<{placeholder}>` in an expression, so all calls \
                 would share one lock; write the template into the attribute as a string literal: \
                 `key = \"{}\"`",
                key.text
            ));
        }
        key
    }

    /// Appends literal text of the template.
    pub fn literal(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Appends the value of the placeholder `<name>`, encoded.
    pub fn part(&mut self, name: &'static str, value: &(impl fmt::Display + ?Sized)) {
        self.encode(name, &value);
    }

    /// Appends the encoded text of `value`. Takes a trait object, so that this code is compiled
    /// once for all types of values.
    fn encode(&mut self, name: &'static str, value: &dyn fmt::Display) {
        let before = self.text.len();
        let written = write!(Encoder(&mut self.text), "{value}");
        if self.error.is_some() {
            return;
        }
        if self.text.len() > MAX_LEN {
            // The text is too long, which `finish` reports. The encoder fails at this length, so an
            // error in `written` does not prove that `Display` failed.
        } else if written.is_err() {
            self.error = Some(format!("the `Display` of `<{name}>` returned an error"));
        } else if self.text.len() == before {
            self.error = Some(format!(
                "the value of `<{name}>` is empty, and all calls with an empty value would share one lock; \
                 check it before the call"
            ));
        }
    }

    /// Returns the finished key, or the error in it.
    pub(crate) fn finish(self) -> Result<String, LockError> {
        match self.error {
            Some(reason) => Err(invalid(&self.text, reason)),
            None => check(self.text),
        }
    }
}

/// Finds the first placeholder in `text` for one of `names`, such as `<id>` or `<id.number>` for
/// the name `id`. Returns the text between its brackets.
fn unfilled<'a>(text: &'a str, names: &[&str]) -> Option<&'a str> {
    if names.is_empty() || !text.contains('<') {
        return None;
    }
    let inside = text
        .split('<')
        .skip(1)
        .filter_map(|part| part.split_once('>'));
    inside.map(|(inside, _)| inside).find(|inside| {
        let root = inside.split('.').next().unwrap_or_default();
        names.contains(&root)
    })
}

/// Refuses a key that is empty or too long, or could be leasehold's own.
pub(crate) fn check(key: String) -> Result<String, LockError> {
    let reason = if key.is_empty() {
        "it is empty; name what is locked, such as `order:42`".to_owned()
    } else if key.len() > MAX_LEN {
        format!("it has more than {MAX_LEN} bytes; use an id or a hash of the value")
    } else if is_reserved(&key) {
        format!("keys with a part `{RESERVED}` are reserved for leasehold; use another name")
    } else {
        return Ok(key);
    };
    Err(invalid(&key, reason))
}

/// True if a lock can have this key.
pub(crate) fn is_lock(key: &str) -> bool {
    !key.is_empty() && key.len() <= MAX_LEN && !is_reserved(key)
}

fn invalid(key: &str, reason: String) -> LockError {
    LockError::InvalidKey {
        key: key.chars().take(64).collect(),
        reason,
    }
}

/// Encodes `value` like the value of a placeholder in a key template: characters that would change
/// the key's structure are percent-encoded. Use this for manually built keys that must equal those
/// of an annotated function.
///
/// A text longer than 512 bytes is cut just after that limit. A key that contains it is refused as
/// too long.
///
/// ```
/// // As `#[distributed_lock(key = "order:<id>", …)]` makes it for `id = "a:b"`.
/// let key = format!("order:{}", leasehold::encode("a:b"));
/// assert_eq!(key, "order:a%3Ab");
/// ```
pub fn encode(value: impl fmt::Display) -> String {
    let mut text = String::new();
    // An error means that the value's `Display` failed, or that the text is too long for a key. In
    // both cases the text ends there.
    let _ = write!(Encoder(&mut text), "{value}");
    text
}

/// Writes a value unchanged. Fails after the write that exceeds [`MAX_LEN`].
struct Limited<'a>(&'a mut String);

impl fmt::Write for Limited<'_> {
    fn write_str(&mut self, value: &str) -> fmt::Result {
        self.0.push_str(value);
        if self.0.len() > MAX_LEN {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

/// Writes a value, percent-encoding the characters that structure a key, and stops just after
/// [`MAX_LEN`].
struct Encoder<'a>(&'a mut String);

impl fmt::Write for Encoder<'_> {
    fn write_str(&mut self, value: &str) -> fmt::Result {
        for character in value.chars() {
            if self.0.len() > MAX_LEN {
                return Err(fmt::Error);
            }
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
    (character == ':' && !seeded!(ColonUnencoded))
        || matches!(character, '%' | '{' | '}')
        || character.is_control()
        || character.is_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn build(separator: &str, values: &[String]) -> Result<String, LockError> {
        let mut key = Key::new();
        for (at, value) in values.iter().enumerate() {
            key.literal(if at == 0 { "k:" } else { separator });
            key.part("value", value);
        }
        key.finish()
    }

    #[test]
    fn structural_characters_are_encoded() {
        let mut key = Key::new();
        key.literal("order:{");
        key.part("id", "a:b%{c} d\n\u{2003}\u{9b}é");
        key.literal("}");
        assert_eq!(
            key.finish().unwrap(),
            "order:{a%3Ab%25%7Bc%7D%20d%0A%E2%80%83%C2%9Bé}"
        );
    }

    #[test]
    fn an_empty_value_names_its_placeholder() {
        let text = build(":", &["a".to_owned(), String::new()])
            .unwrap_err()
            .to_string();
        assert!(text.contains("`<value>` is empty"), "{text}");
    }

    #[test]
    fn the_limits_apply_to_templates_and_expressions() {
        let expression = |text: &str| Key::expression(text, &[]).finish();
        assert!(expression(&"x".repeat(MAX_LEN)).is_ok());
        assert!(expression(&"x".repeat(MAX_LEN + 1)).is_err());
        assert!(expression("").is_err());
        for own in [
            "%leasehold:fence",
            "%leasehold",
            "a:%leasehold:fence",
            "{1a}:b:%leasehold:{1a}:queue:c",
        ] {
            assert!(expression(own).is_err(), "{own}");
        }
        for fine in ["my%leasehold:x", "a:%leaseholder:b", "a:%leasehold"] {
            assert_eq!(expression(fine).unwrap(), fine);
        }
        assert_eq!(expression("as it is: {ok}").unwrap(), "as it is: {ok}");
        // 200 characters become 600, because each one is encoded as three.
        assert!(build(":", &[":".repeat(200)]).is_err());
    }

    /// Fails if an expression is accepted as a key although its text has a placeholder. Nothing
    /// fills that placeholder, so all calls would share one lock.
    #[test]
    fn an_unfilled_placeholder_is_refused() {
        let key = |text: &str| Key::expression(text, &["self", "id"]).finish();
        for (text, placeholder) in [
            ("order:<id>", "<id>"),
            ("<a>:<id.number>:x", "<id.number>"),
            ("<self.region>", "<self.region>"),
            ("<<id>>", "<id>"),
        ] {
            let error = key(text).unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{placeholder}`")),
                "{text}: {error}"
            );
            assert!(
                error.contains(&format!("`key = \"{text}\"`")),
                "{text}: {error}"
            );
        }
        for text in [
            "order",
            "<order>",
            "<idea>",
            "id",
            "a<id",
            "a < b > c",
            "id>",
        ] {
            assert_eq!(key(text).unwrap(), text);
        }
        assert!(Key::expression("order:<id>", &[]).finish().is_ok());
    }

    #[test]
    fn a_namespace_must_not_contain_the_reserved_word() {
        for own in ["%leasehold", "a:%leasehold:queue", "x%leaseholdy"] {
            let text = check_namespace(own).unwrap_err().to_string();
            assert!(
                text.contains(own) && text.contains("leave it out"),
                "{text}"
            );
        }
        for fine in ["", "shop", "{shop}", "%lease:hold"] {
            assert_eq!(check_namespace(fine), Ok(()));
        }
    }

    /// Fails if a key is accepted in which literal text and a value together form the reserved
    /// word. Also fails if a value is refused that has the word itself, whose `%` is encoded.
    #[test]
    fn the_reserved_word_is_checked_in_the_final_key() {
        let mut key = Key::new();
        key.literal("a:%lease");
        key.part("id", "hold");
        key.literal(":fence");
        assert!(matches!(key.finish(), Err(LockError::InvalidKey { .. })));
        let mut key = Key::new();
        key.literal("a:");
        key.part("id", "%leasehold");
        key.literal(":fence");
        assert_eq!(key.finish().unwrap(), "a:%25leasehold:fence");
    }

    struct Faulty;

    impl fmt::Display for Faulty {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            Err(fmt::Error)
        }
    }

    #[test]
    fn a_failing_display_is_an_invalid_key() {
        assert!(Key::expression(&Faulty, &[]).finish().is_err());
        let mut key = Key::new();
        key.literal("k:");
        key.part("value", &Faulty);
        assert!(key.finish().is_err());
    }

    /// Strings whose keys would collide if the encoding were ambiguous.
    fn tricky() -> impl Strategy<Value = String> {
        prop_oneof!["[%:{}a3A5 \\n]{1,6}", "\\PC{1,8}", any::<String>()]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        /// Fails if different values give the same key, with any separator between them.
        #[test]
        fn encoding_is_injective(
            pairs in prop::collection::vec((tricky(), tricky()), 1..4),
            separator in prop::sample::select(vec![":", "{", "}", "}:", "-:-"]),
        ) {
            let (one, two): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            if let (Ok(first), Ok(second)) = (build(separator, &one), build(separator, &two)) {
                prop_assert_eq!(first == second, one == two);
            }
        }

        /// Fails if the same parts, divided between two values in different ways, give the same
        /// key. The test above hardly ever generates such values.
        #[test]
        fn values_cut_at_different_separators_differ(
            parts in prop::collection::vec("[a%:{}]{1,2}", 3..6),
            cuts in (1_usize..5, 1_usize..5),
            separator in prop::sample::select(vec![":", "{", "}"]),
        ) {
            let pair = |cut: usize| {
                let (one, two) = parts.split_at(cut.min(parts.len() - 1));
                [one.join(separator), two.join(separator)]
            };
            let (one, two) = (pair(cuts.0), pair(cuts.1));
            if let (Ok(first), Ok(second)) = (build(separator, &one), build(separator, &two)) {
                prop_assert_eq!(first == second, one == two);
            }
        }

        /// Fails if a value can open or close a hash tag, or begin a new part of the key.
        #[test]
        fn a_value_cannot_change_the_structure_of_a_key(value in tricky()) {
            if let Ok(key) = build(":", &[value]) {
                let escaped = key["k:".len()..].contains([':', '{', '}', ' ', '\n']);
                prop_assert!(!escaped, "{}", key);
            }
        }
    }
}
