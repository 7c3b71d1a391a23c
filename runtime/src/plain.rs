//! Escapes text from other programs before it is shown in logs and terminals.

use std::fmt::{self, Write as _};

/// Maximum number of displayed characters. Keys and owners written by leasehold are shorter.
const LONGEST: usize = 2_000;

/// Displays a key, an owner, or a message of a server. Escapes, in Rust's notation, the characters
/// that control a terminal or a log. These are control characters, line separators (U+2028,
/// U+2029), and characters that change the direction of text (section 2 of Unicode Standard Annex
/// #9). Cuts a text of more than 2,000 characters and ends it with `…`.
pub(crate) struct Plain<'a>(pub(crate) &'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, character) in self.0.chars().enumerate() {
            if number == LONGEST {
                return f.write_char('…');
            }
            if is_obeyed(character) {
                write!(f, "{}", character.escape_default())?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}

fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// Escapes characters that control a terminal or a log. Used by the command `leasehold`.
pub fn plain(text: &str) -> String {
    Plain(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a displayed text can move the cursor, end a line, or reverse the direction of text.
    #[test]
    fn control_characters_are_escaped() {
        for (text, shown) in [
            ("job:\u{1b}[2J", "job:\\u{1b}[2J"),
            ("a\nb\r\u{85}", "a\\nb\\r\\u{85}"),
            ("a\u{202e}b\u{2066}", "a\\u{202e}b\\u{2066}"),
            ("a\u{2028}b", "a\\u{2028}b"),
            ("größe:7 \"é\" e\u{301} سلام", "größe:7 \"é\" e\u{301} سلام"),
        ] {
            assert_eq!(plain(text), shown);
        }
    }

    /// A server sends a very long message. Fails if more than `LONGEST` characters of it are shown.
    #[test]
    fn very_long_texts_are_cut() {
        let text = "é".repeat(LONGEST);
        assert_eq!(plain(&text), text);
        assert_eq!(plain(&format!("{text}ab")), format!("{text}…"));
    }
}
