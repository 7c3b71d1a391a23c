//! Writes JSON from which every build of a program reads the same value, because one build may read
//! a result that another build has kept.
//!
//! If one crate of a program enables a feature of `serde_json`, Cargo enables it for all crates.
//! `preserve_order` changes the order of a `Value`'s fields. `arbitrary_precision` changes the
//! digits of its numbers, and the reading of numbers into untagged enums and flattened fields.

use std::io;

use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::ser::Formatter;
use serde_json::{Error, Serializer, Value};

use crate::base::seeded::seeded;

/// Returns the JSON of `value`. Fails if reading this JSON gives another value.
pub(crate) fn checked<T: Serialize + DeserializeOwned>(value: &T) -> Result<String, Error> {
    let json = portable(value)?;
    if seeded!(KeptUnread) || read::<T>(&json)?.is_same {
        return Ok(json);
    }
    Err(Error::custom("another value comes back from its JSON"))
}

/// A value read from its JSON.
pub(crate) struct Reading<T> {
    pub(crate) value: T,
    /// True if `value`, written as JSON again, gives the JSON that it was read from.
    is_same: bool,
}

/// Reads a value from the text. If that fails, or if the value does not give the same JSON again,
/// reads the text as a `Value`, and the value from that. Both ways are needed. With
/// `arbitrary_precision`, an untagged enum and a flattened field can take a number only from a
/// `Value`. A 128-bit integer can be read only from a text.
pub(crate) fn read<T: Serialize + DeserializeOwned>(json: &str) -> Result<Reading<T>, Error> {
    let read = |value: T| Reading {
        is_same: portable(&value).is_ok_and(|again| is_same(&again, json)),
        value,
    };
    let direct = serde_json::from_str(json).map(read);
    if direct.as_ref().is_ok_and(|reading| reading.is_same) {
        return direct;
    }
    let value = serde_json::from_str::<Value>(json);
    match value.and_then(serde_json::from_value).map(read) {
        Ok(reading) if reading.is_same || direct.is_err() => Ok(reading),
        _ => direct,
    }
}

/// Returns the JSON of `value`. Fails if `value` contains a `Value` with a number that a build
/// without `arbitrary_precision` cannot read exactly.
fn portable(value: &impl Serialize) -> Result<String, Error> {
    struct Portable;

    impl Formatter for Portable {
        fn write_number_str<W>(&mut self, writer: &mut W, number: &str) -> io::Result<()>
        where
            W: ?Sized + io::Write,
        {
            if is_exact(number) {
                return writer.write_all(number.as_bytes());
            }
            Err(io::Error::other("a number has more digits than a double"))
        }
    }

    let mut json = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut json, Portable))?;
    String::from_utf8(json).map_err(Error::custom)
}

/// True if every build of a program reads the number exactly, as an integer of 64 bits or as a
/// double.
fn is_exact(number: &str) -> bool {
    if number.parse::<u64>().is_ok() || number.parse::<i64>().is_ok() {
        return true;
    }
    let double = number
        .parse::<f64>()
        .ok()
        .filter(|double| double.is_finite());
    let shortest = double.and_then(|double| decimal(&format!("{double:e}")));
    shortest.is_some() && shortest == decimal(number)
}

/// True if both are the JSON of the same value. Ignores the order of fields and of lists, because
/// the order of a `HashMap` and a `HashSet` varies.
fn is_same(one: &str, other: &str) -> bool {
    let sorted = |json| rewritten(json, Rules::COMPARISON);
    one == other || sorted(one) == sorted(other)
}

/// Returns the text from which the fingerprint of a request is computed. The text is the same for
/// all JSON of the same request. It has no spaces between tokens, its maps are sorted by field
/// name, and each number has its shortest form.
pub(crate) fn canonical(json: &str) -> String {
    rewritten(json, Rules::REQUEST)
}

/// Rules for rewriting JSON. Maps are always sorted.
#[derive(Clone, Copy)]
struct Rules {
    sorts_lists: bool,
    /// True if `1.0` and `1` count as different numbers.
    doubles_differ: bool,
}

impl Rules {
    const COMPARISON: Self = Self {
        sorts_lists: true,
        doubles_differ: true,
    };
    const REQUEST: Self = Self {
        sorts_lists: false,
        doubles_differ: false,
    };
}

fn rewritten(json: &str, rules: Rules) -> String {
    let (mut rest, mut out) = (json, String::with_capacity(json.len()));
    write(&mut rest, rules, &mut out);
    out
}

/// Takes the first value off `rest` and writes it to `out`.
fn write(rest: &mut &str, rules: Rules, out: &mut String) {
    *rest = rest.trim_start();
    match rest.as_bytes().first() {
        Some(b'{') => write_all(rest, '}', true, rules, out),
        Some(b'[') => write_all(rest, ']', rules.sorts_lists, rules, out),
        Some(b'"') => out.push_str(take(rest, end_of_string(rest))),
        _ => {
            let ends = |at: char| at.is_ascii_whitespace() || ",:]}".contains(at);
            let end = rest.find(ends).filter(|end| *end > 0);
            let plain = take(rest, end.unwrap_or(rest.len()));
            let number = decimal(plain);
            out.push_str(number.as_deref().unwrap_or(plain));
            if number.is_some() && rules.doubles_differ && plain.contains(['.', 'e', 'E']) {
                out.push('.');
            }
        }
    }
}

/// Takes a list or a map off `rest`, up to `close`, and writes it to `out`.
fn write_all(rest: &mut &str, close: char, sorts: bool, rules: Rules, out: &mut String) {
    let (open, mut parts) = (take(rest, 1), Vec::new());
    loop {
        *rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with(close) {
            break;
        }
        if rest.starts_with(',') {
            take(rest, 1);
            continue;
        }
        let mut part = String::new();
        write(rest, rules, &mut part);
        if let Some(value) = rest.trim_start().strip_prefix(':') {
            *rest = value;
            part.push(':');
            write(rest, rules, &mut part);
        }
        parts.push(part);
    }
    take(rest, rest.len().min(1));
    if sorts {
        parts.sort_unstable();
    }
    out.push_str(open);
    out.push_str(&parts.join(","));
    out.push(close);
}

/// Takes the first `bytes` bytes off `rest`.
fn take<'a>(rest: &mut &'a str, bytes: usize) -> &'a str {
    let (taken, left) = rest.split_at_checked(bytes).unwrap_or((rest, ""));
    *rest = left;
    taken
}

/// Returns the end of the string at the start of `json`.
fn end_of_string(json: &str) -> usize {
    let mut escaped = false;
    let end = json.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(json.len(), |end| end + 2)
}

/// Returns the number in its shortest form: a sign, the digits without zeros at either end, and the
/// power of ten. None if `text` is not a number.
fn decimal(text: &str) -> Option<String> {
    let (sign, number) = match text.strip_prefix('-') {
        Some(number) => ("-", number),
        None => ("", text),
    };
    let (digits, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let shortest = digits.trim_end_matches('0');
    let moved = i64::try_from(digits.len() - shortest.len()).ok()?;
    let moved = moved - i64::try_from(fraction.len()).ok()?;
    let power = power.parse::<i64>().ok()?.checked_add(moved)?;
    match shortest.trim_start_matches('0') {
        "" => Some("0".to_owned()),
        shortest => Some(format!("{sign}{shortest}e{power}")),
    }
}

#[cfg(test)]
mod every_build;
#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if two spellings of one number give different texts, or two numbers give the same
    /// text.
    #[test]
    fn equal_numbers_have_one_form() {
        for (forms, decimal_form) in [
            (&["1", "1.0", "10e-1", "0.1E+1", "1.00"][..], "1e0"),
            (&["-1500", "-1.5e3", "-1500.000"], "-15e2"),
            (&["0", "-0", "0.000", "0e99", "-0.0"], "0"),
            (&["100000000000000000000", "1e20", "1E+20"], "1e20"),
            (&["1.0000000000000001"], "10000000000000001e-16"),
        ] {
            for form in forms {
                assert_eq!(decimal(form).as_deref(), Some(decimal_form), "{form}");
            }
        }
        for text in [
            "",
            "-",
            "null",
            "1e",
            "e1",
            ".",
            "1x",
            "1e99999999999999999999",
        ] {
            assert_eq!(decimal(text), None, "{text}");
        }
    }

    /// Fails if `is_exact` accepts a number that only builds with `arbitrary_precision` read
    /// exactly, or refuses a number that every build reads exactly.
    #[test]
    fn a_number_is_exact_if_every_build_reads_it_alike() {
        for number in [
            "0",
            "-0",
            "1.50",
            "18446744073709551615",
            "-9223372036854775808",
        ] {
            assert!(is_exact(number), "{number}");
        }
        for number in ["1e22", "0.1", "5e-324", "1.7976931348623157e308", "1e-7"] {
            assert!(is_exact(number), "{number}");
        }
        for number in [
            "18446744073709551617",
            "1e400",
            "0.12345678901234567890",
            "1e-400",
        ] {
            assert!(!is_exact(number), "{number}");
        }
    }

    /// Fails if the order of fields or of a list makes two values differ, or if any other
    /// difference is ignored.
    #[test]
    fn json_values_are_compared_regardless_of_order() {
        let same = |one, other| is_same(one, other);
        assert!(same(r#"{"a":1,"b":[1,2]}"#, r#"{"b":[2,1],"a":1}"#));
        assert!(same(r#"["a,","{\"","\\"]"#, r#"["\\","a,","{\""]"#));
        for other in [
            r#"{"a":2}"#,
            r#"{"b":1}"#,
            r#"{"a":"1"}"#,
            r#"{"a":1.0}"#,
            "[1]",
            "1",
        ] {
            assert!(!same(r#"{"a":1}"#, other), "{other}");
        }
        assert!(!same("[[1],[2]]", "[[1,2]]"));
    }

    /// Fails if `canonical` panics or never returns for a truncated or invalid text.
    #[test]
    fn a_truncated_text_causes_no_panic() {
        let json = r#"{"a":[1,{"ü":"\"}"}],"b":-1.5e3,"c":null}"#;
        for end in (0..json.len()).filter(|end| json.is_char_boundary(*end)) {
            canonical(&json[..end]);
        }
        for odd in ["]", "}", ":", "[:]", "{:,}", "[}", "{]", "\"\\", ",,"] {
            canonical(odd);
        }
    }
}
