//! Durations such as `"10s"`, and the errors for wrong ones.

use crate::diag::Message;

/// Units from large to small, with their length in milliseconds.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

const FORMS: &str = "units are `ms`, `s`, `m`, `h`, and they combine: \"1m30s\"";

/// Returns the milliseconds of `text`. Accepts zero, because the option `wait` allows it; the
/// caller refuses it for other options.
pub(crate) fn parse(text: &str) -> Result<u64, Message> {
    if text.trim().is_empty() {
        return Err(Message::new("this duration is empty").help("write one such as \"10s\""));
    }
    if let Some(meant) = iso(text) {
        return Err(Message::new(format!("`{text}` is an ISO 8601 duration"))
            .help(format!("did you mean \"{meant}\"?")));
    }
    if text.contains(char::is_whitespace) {
        return Err(without(text, char::is_whitespace, "white space"));
    }
    if text.contains('_') {
        return Err(without(text, |c| c == '_', "`_`"));
    }
    let mut total = 0_u64;
    let mut smallest = usize::MAX;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, unit, after) = split(text, rest)?;
        let index = unit_index(text, number, unit)?;
        if smallest != usize::MAX && index <= smallest {
            return Err(
                Message::new(format!("the units of `{text}` are out of order"))
                    .help("write each unit once, the largest first: \"1m30s\""),
            );
        }
        smallest = index;
        total = number
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(UNITS[index].1))
            .and_then(|n| n.checked_add(total))
            .ok_or_else(|| Message::new(format!("`{text}` is too long for a duration")))?;
        rest = after;
    }
    Ok(total)
}

/// Returns the milliseconds of the duration that the help of `message` suggests, such as the `48h`
/// of `did you mean "48h"?`.
pub(crate) fn suggested(message: &Message) -> Option<u64> {
    let help = message.help.as_deref()?;
    let (meant, _) = help.strip_prefix("did you mean \"")?.split_once('"')?;
    parse(meant).ok()
}

/// Returns the duration in the syntax of the attribute.
pub(crate) fn display(mut millis: u64) -> String {
    if millis == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, length) in UNITS {
        if millis >= length {
            text = format!("{text}{}{unit}", millis / length);
            millis %= length;
        }
    }
    text
}

/// Returns the number and the unit at the start of `rest`, and the text after them. `text` is the
/// whole duration, for the errors.
fn split<'a>(text: &str, rest: &'a str) -> Result<(&'a str, &'a str, &'a str), Message> {
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (number, tail) = rest.split_at(digits);
    if tail.starts_with(['.', ',']) {
        return Err(fraction(text));
    }
    if number.is_empty() {
        return Err(Message::new(format!("`{text}` is not a duration")).help(FORMS));
    }
    let letters = tail
        .find(|c: char| c.is_ascii_digit() || matches!(c, '.' | ','))
        .unwrap_or(tail.len());
    let (unit, after) = tail.split_at(letters);
    if unit.is_empty() {
        let message = Message::new(format!("`{text}` has no unit"));
        return Err(suggest(message, &format!("{text}s")));
    }
    Ok((number, unit, after))
}

/// Adds the duration `meant` to the help, if it is a valid duration.
fn suggest(message: Message, meant: &str) -> Message {
    match parse(meant) {
        Ok(_) => message.help(format!(
            "did you mean \"{meant}\"? units are `ms`, `s`, `m`, `h`"
        )),
        Err(_) => message.help(FORMS),
    }
}

fn unit_index(text: &str, number: &str, unit: &str) -> Result<usize, Message> {
    if let Some(index) = UNITS.iter().position(|(name, _)| *name == unit) {
        return Ok(index);
    }
    let unknown = Message::new(format!("`{text}` has an unknown unit `{unit}`"));
    Err(match unit.to_lowercase().as_str() {
        "us" | "µs" | "ns" | "usec" | "nsec" | "micros" | "nanos" => {
            unknown.help("a duration is a whole number of milliseconds, such as \"100ms\"")
        }
        "d" | "day" | "days" => match number.parse::<u64>().ok().and_then(|n| n.checked_mul(24)) {
            Some(hours) => suggest(unknown, &format!("{hours}h")),
            None => unknown.help(FORMS),
        },
        other => match familiar(other) {
            Some(meant) => {
                let meant = text.replace(&format!("{number}{unit}"), &format!("{number}{meant}"));
                suggest(unknown, &meant)
            }
            None => unknown.help(FORMS),
        },
    })
}

/// Returns the attribute's spelling of a unit in the spelling of another tool, such as `s` for
/// `sec`.
fn familiar(unit: &str) -> Option<&'static str> {
    Some(match unit {
        "ms" | "msec" | "msecs" | "milli" | "millis" | "millisecond" | "milliseconds" => "ms",
        "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "m" | "min" | "mins" | "minute" | "minutes" => "m",
        "h" | "hr" | "hrs" | "hour" | "hours" => "h",
        _ => return None,
    })
}

fn fraction(text: &str) -> Message {
    let message = Message::new(format!("`{text}` is a fraction"));
    match whole(text) {
        Some(meant) => message.help(format!("did you mean \"{meant}\"?")),
        None => message.help("write a whole number of a smaller unit: \"1500ms\""),
    }
}

/// Converts `1.5s` to `1s500ms`, if the value is a whole number of milliseconds.
fn whole(text: &str) -> Option<String> {
    let (whole, tail) = text.split_once(['.', ','])?;
    let digits = tail.find(|c: char| !c.is_ascii_digit())?;
    let (part, unit) = tail.split_at(digits);
    let length = UNITS.iter().find(|(name, _)| *name == unit)?.1;
    let scale = 10_u64.checked_pow(u32::try_from(part.len()).ok()?)?;
    let part = part.parse::<u64>().ok()?.checked_mul(length)?;
    if part % scale != 0 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(length)?;
    Some(display(whole.checked_add(part / scale)?))
}

/// Converts `1min30sec` to `1m30s`.
fn with_our_units(text: &str) -> Option<String> {
    let mut meant = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (number, unit, after) = split(text, rest).ok()?;
        meant.push_str(number);
        meant.push_str(familiar(&unit.to_lowercase())?);
        rest = after;
    }
    parse(&meant).ok().map(|_| meant)
}

/// Converts `PT1M30S` to `1m30s`.
fn iso(text: &str) -> Option<String> {
    let upper = text.to_uppercase();
    let time = upper.strip_prefix("PT")?;
    parse(&time.to_lowercase()).ok().map(display)
}

fn without(text: &str, unwanted: impl Fn(char) -> bool, name: &str) -> Message {
    let meant: String = text.chars().filter(|c| !unwanted(*c)).collect();
    let message = Message::new(format!("`{text}` contains {name}"));
    match with_our_units(&meant) {
        Some(meant) => message.help(format!("did you mean \"{meant}\"?")),
        None => message.help(FORMS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_combine_units() {
        for (text, millis) in [
            ("1ms", 1),
            ("500ms", 500),
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("2m", 120_000),
            ("24h", 86_400_000),
            ("1h2m3s4ms", 3_723_004),
            ("90s", 90_000),
            ("0s", 0),
            ("007s", 7_000),
        ] {
            assert_eq!(parse(text), Ok(millis), "{text}");
        }
    }

    #[test]
    fn every_mistake_has_its_own_message() {
        for (text, what, help) in [
            ("", "this duration is empty", "such as \"10s\""),
            ("  ", "this duration is empty", "such as \"10s\""),
            (
                "10",
                "`10` has no unit",
                "did you mean \"10s\"? units are `ms`, `s`, `m`, `h`",
            ),
            ("1m30", "`1m30` has no unit", "did you mean \"1m30s\"?"),
            ("0s4", "`0s4` has no unit", "units are"),
            ("1s5min", "unknown unit `min`", "units are"),
            ("1.5s", "`1.5s` is a fraction", "did you mean \"1s500ms\"?"),
            ("0.5m", "`0.5m` is a fraction", "did you mean \"30s\"?"),
            ("1.5", "`1.5` is a fraction", "\"1500ms\""),
            ("0.5ms", "`0.5ms` is a fraction", "whole number"),
            ("1,5s", "`1,5s` is a fraction", "did you mean \"1s500ms\"?"),
            ("10sec", "unknown unit `sec`", "did you mean \"10s\"?"),
            ("10S", "unknown unit `S`", "did you mean \"10s\"?"),
            ("5 minutes", "contains white space", "did you mean \"5m\"?"),
            ("10 sec", "contains white space", "did you mean \"10s\"?"),
            (
                "1 min 30 sec",
                "contains white space",
                "did you mean \"1m30s\"?",
            ),
            ("5 apples", "contains white space", "units are"),
            ("PT10S", "ISO 8601 duration", "did you mean \"10s\"?"),
            ("pt1h30m", "ISO 8601 duration", "did you mean \"1h30m\"?"),
            ("PT1.5S", "`PT1.5S` is not a duration", "units are"),
            ("10 s", "contains white space", "did you mean \"10s\"?"),
            ("1_000ms", "contains `_`", "did you mean \"1000ms\"?"),
            ("2d", "unknown unit `d`", "did you mean \"48h\"?"),
            ("10us", "unknown unit `us`", "whole number of milliseconds"),
            ("10x", "unknown unit `x`", "units are"),
            ("s", "`s` is not a duration", "units are"),
            ("-5s", "`-5s` is not a duration", "units are"),
            ("ten", "`ten` is not a duration", "units are"),
            ("30s1m", "out of order", "the largest first"),
            ("1s1s", "out of order", "each unit once"),
            ("1m30sec", "unknown unit `sec`", "did you mean \"1m30s\"?"),
            ("99999999999999999999s", "too long", ""),
            ("18446744073709551615h", "too long", ""),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.what.contains(what), "{text}: {error:?}");
            assert!(
                error.help.as_deref().unwrap_or("").contains(help),
                "{text}: {error:?}"
            );
        }
    }

    #[test]
    fn displayed_durations_can_be_parsed() {
        for millis in [0, 1, 999, 1_000, 90_000, 3_723_004, 86_400_000] {
            assert_eq!(parse(&display(millis)), Ok(millis));
        }
        assert_eq!(display(90_500), "1m30s500ms");
    }
}
