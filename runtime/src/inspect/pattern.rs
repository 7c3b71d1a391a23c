//! Patterns of keys, such as `order:*`.

/// A pattern: `*` matches any text, `?` matches one character, and the character after `\` matches
/// itself. A pattern means the same on every store.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(Vec<Part>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Literal(char),
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Self {
        let (mut parts, mut characters) = (Vec::new(), text.chars());
        while let Some(character) = characters.next() {
            parts.push(match character {
                '*' => Part::Any,
                '?' => Part::One,
                '\\' => Part::Literal(characters.next().unwrap_or('\\')),
                character => Part::Literal(character),
            });
        }
        Self(parts)
    }

    pub(crate) fn matches(&self, key: &str) -> bool {
        let key: Vec<char> = key.chars().collect();
        let (mut part, mut at) = (0, 0);
        // The last `*` so far, to which a mismatch returns: its index in the pattern, and the index
        // in the key at which the text matched by this `*` ends.
        let mut any: Option<(usize, usize)> = None;
        while at < key.len() {
            match self.0.get(part) {
                Some(Part::Any) => {
                    any = Some((part, at));
                    part += 1;
                }
                Some(Part::One) => (part, at) = (part + 1, at + 1),
                Some(Part::Literal(character)) if *character == key[at] => {
                    (part, at) = (part + 1, at + 1);
                }
                _ => {
                    let Some((star, reach)) = any else {
                        return false;
                    };
                    any = Some((star, reach + 1));
                    (part, at) = (star + 1, reach + 1);
                }
            }
        }
        self.0[part..].iter().all(|part| *part == Part::Any)
    }

    /// Returns a pattern for Redis that matches `prefix` followed by any key that this pattern
    /// matches. The Redis pattern can match more keys, because Redis compares bytes instead of
    /// characters. So the caller must check the found keys with [`matches`](Self::matches).
    #[cfg(feature = "redis")]
    pub(crate) fn for_redis(&self, prefix: &str) -> String {
        let mut text = String::new();
        let literals = prefix.chars().map(Part::Literal);
        for part in literals.chain(self.0.iter().copied()) {
            match part {
                Part::Any => text.push('*'),
                // Redis matches `?` with one byte, but a character may have several bytes. `?*`
                // matches one or more bytes.
                Part::One => text.push_str("?*"),
                Part::Literal(character) => {
                    if matches!(character, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
                        text.push('\\');
                    }
                    text.push(character);
                }
            }
        }
        text
    }

    /// Returns the literal text with which every matching key begins.
    #[cfg(any(feature = "postgres", feature = "__session"))]
    pub(crate) fn beginning(&self) -> String {
        let literal = |part: &Part| match part {
            Part::Literal(character) => Some(*character),
            Part::Any | Part::One => None,
        };
        self.0.iter().map_while(literal).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_like_globs() {
        for (pattern, key, matches) in [
            ("*", "", true),
            ("order:*", "order:42", true),
            ("order:*", "orders", false),
            ("*:42", "order:142:42", true),
            ("o*r?4*", "order:42", true),
            ("o*r?5*", "order:42", false),
            ("?", "é", true),
            ("?", "ab", false),
            (r"50\*", "50*", true),
            (r"50\*", "501", false),
            ("[ab]", "a", false),
            ("[ab]", "[ab]", true),
            ("", "", true),
            ("", "a", false),
            (r"\", r"\", true),
        ] {
            assert_eq!(
                Pattern::new(pattern).matches(key),
                matches,
                "{pattern} {key}"
            );
        }
    }

    proptest! {
        /// The generated key has random text where the pattern has a `*`. Fails if the pattern does
        /// not match this key, or if `matches` never returns.
        #[test]
        fn a_pattern_matches_keys_made_from_it(
            parts in prop::collection::vec(("[ab*?é]{0,3}", "[abé]{0,3}"), 0..5),
        ) {
            let (mut pattern, mut key) = (String::new(), String::new());
            for (literal, rest) in parts {
                for character in literal.chars() {
                    pattern.push('\\');
                    pattern.push(character);
                }
                key.push_str(&literal);
                pattern.push('*');
                key.push_str(&rest);
            }
            prop_assert!(Pattern::new(&pattern).matches(&key), "{} {}", pattern, key);
        }
    }
}
