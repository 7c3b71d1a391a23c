//! Reads what `look.lua` says.

use std::time::{Duration, SystemTime};

use redis::Value;

use super::value::{Record, Written};
use crate::inspect::info::{Holder, LockInfo, Waiter};
use crate::store::Failure;
use crate::store::redis::commands::failure;

/// What there is of the lock `key`.
pub(crate) fn read(key: &str, answer: Value) -> Result<LockInfo, Failure> {
    if let Value::ServerError(error) = answer {
        return Err(failure::server_error(error.code(), error.details()));
    }
    lock(key, &answer).ok_or_else(|| failure::garbage("an answer of another shape"))
}

fn lock(key: &str, answer: &Value) -> Option<LockInfo> {
    let [now, value, ms, shares, waiters] = array(answer)? else {
        return None;
    };
    let now = time(text(now)?)?;
    let mut info = LockInfo::free(key);
    let waiters = array(waiters)?.iter();
    info.waiting = waiters
        .map(|waiter| {
            let record = Record::read(text(waiter).unwrap_or_default());
            Waiter {
                owner: record.and_then(|record| record.owner()),
                since: record.and_then(|record| record.since(now)),
            }
        })
        .collect();
    let Value::BulkString(value) = value else {
        return Some(info);
    };
    let Value::Int(ms) = ms else {
        return None;
    };
    let left = u64::try_from(*ms).ok().map(Duration::from_millis);
    let value = String::from_utf8_lossy(value);
    let written = Written::read(&value);
    written.show(&mut info, left, now);
    if let Written::Shared(_) = written {
        for share in array(shares)? {
            info.holders.push(holder(share, now)?);
        }
        let fences = info.holders.iter().filter_map(|holder| holder.fence);
        info.fence = fences.max();
    }
    Some(info)
}

/// The holder of a share.
fn holder(share: &Value, now: SystemTime) -> Option<Holder> {
    let [member, ends, record] = array(share)? else {
        return None;
    };
    let left = time(text(ends)?)?.duration_since(now).unwrap_or_default();
    let record = Record::read(text(record).unwrap_or_default());
    let holder = record.map_or_else(
        || Holder::unknown(Some(left)),
        |record| record.holder(Some(left), now),
    );
    Some(Holder {
        revoked: text(member)?.starts_with('r'),
        ..holder
    })
}

/// A time of the server's clock, in milliseconds.
fn time(text: &str) -> Option<SystemTime> {
    let millis: f64 = text.parse().ok()?;
    let since = Duration::try_from_secs_f64(millis / 1e3).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(since)
}

fn array(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(values) => Some(values),
        _ => None,
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}
