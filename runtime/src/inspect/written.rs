//! Formats of times and durations for serde.

use std::time::{Duration, SystemTime};

use serde::Serializer;

/// Writes a time as a text of RFC 3339, in UTC with milliseconds.
#[expect(clippy::ref_option, reason = "serde calls it so")]
pub(super) fn time<S: Serializer>(
    time: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    // RFC 3339 cannot express times after the year 9999. `kept_until` is computed from the key's
    // expiry, which any client can set to a later time. Such a time is written as none.
    let latest = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    match time.filter(|time| *time <= latest) {
        Some(time) => serializer.collect_str(&humantime::format_rfc3339_millis(time)),
        None => serializer.serialize_none(),
    }
}

/// Writes a duration in milliseconds.
#[expect(clippy::ref_option, reason = "serde calls it so")]
pub(super) fn millis<S: Serializer>(
    span: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match span {
        Some(span) => {
            let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
            serializer.serialize_some(&millis)
        }
        None => serializer.serialize_none(),
    }
}
