//! Key templates as the macro reads them, filled in as the runtime does.
#![no_main]
#![allow(dead_code, reason = "the macro uses the rest")]

#[path = "../../macros/src/diag.rs"]
mod diag;
#[path = "../../macros/src/habit.rs"]
mod habit;
#[path = "../../macros/src/printf.rs"]
mod printf;
#[path = "../../macros/src/template.rs"]
mod template;

use leasehold::__private::Key;
use leasehold::encode;

use crate::template::{Piece, Template};

/// Maximum length of a key for which this target counts the ways to build it from a template.
const LONGEST: usize = 120;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let mut lines = text.split('\u{1}');
    let Ok(template) = Template::parse(lines.next().unwrap_or_default()) else {
        return;
    };
    let mut key = Key::new();
    let mut values = lines.chain(std::iter::repeat("1"));
    for piece in &template.pieces {
        match piece {
            Piece::Text(text) => key.literal(text),
            Piece::Value(_) => key.part("value", values.next().unwrap_or("1")),
        }
    }
    // `finished` applies the runtime's own check. It refuses the same templates as the macro, and
    // keys that are too long.
    let Some(key) = finished(key) else {
        return;
    };
    let parses = parses(&key, &template.pieces);
    assert!(parses == 1, "{key} has {parses} parses by {template:?}");
});

fn finished(key: Key) -> Option<String> {
    let key = leasehold::__test::finished(key)?;
    (key.len() <= LONGEST).then_some(key)
}

/// Counts the ways to fill in the pieces so that they form `key`.
fn parses(key: &str, pieces: &[Piece]) -> u64 {
    // ways[at]: the number of ways to build key[..at] from the pieces so far.
    let mut ways = vec![0_u64; key.len() + 1];
    ways[0] = 1;
    for piece in pieces {
        let mut next = vec![0_u64; key.len() + 1];
        for (from, count) in ways.into_iter().enumerate().filter(|(_, count)| 0 < *count) {
            match piece {
                Piece::Text(text) if key.as_bytes()[from..].starts_with(text.as_bytes()) => {
                    next[from + text.len()] += count;
                }
                Piece::Text(_) => {}
                Piece::Value(_) => {
                    for to in from + 1..=key.len() {
                        if key.get(from..to).is_some_and(is_encoded) {
                            next[to] = next[to].saturating_add(count);
                        }
                    }
                }
            }
        }
        ways = next;
    }
    ways[key.len()]
}

/// True if this text is the encoding of some value.
fn is_encoded(text: &str) -> bool {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first == b'%' {
            let digits = behind.get(..2).and_then(|two| str::from_utf8(two).ok());
            let Some(byte) = digits.and_then(|two| u8::from_str_radix(two, 16).ok()) else {
                return false;
            };
            bytes.push(byte);
            rest = &behind[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).is_ok_and(|value| encode(value) == text)
}
