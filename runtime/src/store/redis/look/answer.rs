//! Reads answers of the scripts that inspect a lock.

use std::time::{Duration, SystemTime};

use redis::Value;

use super::value::{Record, Written};
use crate::inspect::info::{Holder, LockInfo, Waiter};
use crate::store::Failure;
use crate::store::redis::commands::failure;

/// Limit for the server's time, in the year 5138. A later time is refused, so that sums of times
/// cannot overflow.
const LATEST: Duration = Duration::from_secs(100_000_000_000);

/// Reads an answer of `look.lua` about the lock `key`.
pub(crate) fn read(key: &str, answer: &Value) -> Result<LockInfo, Failure> {
    Seen::read(answer)?.shown(key)
}

/// Reader of the answers for the keys of a list, one at a time.
///
/// A key that this client may not read is shown as a foreign lock, like a lock taken by other
/// software. So the remaining locks can still be listed. If the client may read none of the keys,
/// the list fails, to report the missing permission.
pub(crate) struct List {
    reads_some: bool,
}

impl List {
    pub(crate) fn of<'a>(answers: impl IntoIterator<Item = &'a Value>) -> Self {
        let reads_some = answers.into_iter().any(|answer| !is_refused(answer));
        Self { reads_some }
    }

    pub(crate) fn read(&self, key: &str, answer: &Value) -> Result<LockInfo, Failure> {
        self.seen(answer)?.shown(key)
    }

    pub(crate) fn seen<'a>(&self, answer: &'a Value) -> Result<Seen<'a>, Failure> {
        if self.reads_some && is_refused(answer) {
            return Ok(Seen::FOREIGN);
        }
        Seen::read(answer)
    }
}

/// True if this client may not read the key.
fn is_refused(answer: &Value) -> bool {
    let Value::ServerError(error) = answer else {
        return false;
    };
    let details = error.details().unwrap_or_default();
    failure::hidden_code(error.code(), details) == "NOPERM" && details.contains("key")
}

/// A parsed answer of `look.lua`.
pub(crate) struct Seen<'a> {
    pub(crate) now: SystemTime,
    /// The value of the lock's key.
    pub(crate) value: Option<&'a [u8]>,
    /// Remaining time to live of the key. `None` if the key does not expire.
    pub(crate) left: Option<Duration>,
    shares: &'a [Value],
    waiters: &'a [Value],
}

impl<'a> Seen<'a> {
    /// Placeholder for a lock whose key this client may not read.
    const FOREIGN: Self = Self {
        now: SystemTime::UNIX_EPOCH,
        value: Some(b"?"),
        left: None,
        shares: &[],
        waiters: &[],
    };

    pub(crate) fn read(answer: &'a Value) -> Result<Self, Failure> {
        if let Value::ServerError(error) = answer {
            return Err(failure::server_error(error.code(), error.details()));
        }
        Self::of(answer).ok_or_else(shapeless)
    }

    fn of(answer: &'a Value) -> Option<Self> {
        let [now, value, ms, shares, waiters] = array(answer)? else {
            return None;
        };
        let Value::Int(ms) = ms else {
            return None;
        };
        Some(Self {
            now: time(text(now)?)?,
            value: match value {
                Value::BulkString(value) => Some(value),
                _ => None,
            },
            left: u64::try_from(*ms).ok().map(Duration::from_millis),
            shares: array(shares)?,
            waiters: array(waiters)?,
        })
    }

    fn shown(&self, key: &str) -> Result<LockInfo, Failure> {
        let mut info = LockInfo::free(key);
        self.show(&mut info).ok_or_else(shapeless)?;
        Ok(info)
    }

    fn show(&self, info: &mut LockInfo) -> Option<()> {
        let waiters = self.waiters.iter();
        info.waiting = waiters
            .map(|waiter| {
                let record = Record::read(text(waiter).unwrap_or_default());
                Waiter {
                    owner: record.and_then(|record| record.owner()),
                    since: record.and_then(|record| record.since(self.now)),
                }
            })
            .collect();
        let Some(value) = self.value else {
            return Some(());
        };
        let value = String::from_utf8_lossy(value);
        let written = Written::read(&value);
        written.show(info, self.left, self.now);
        if let Written::Shared(_) = written {
            for share in self.shares {
                info.holders.push(holder(share, self.now)?);
            }
            let fences = info.holders.iter().filter_map(|holder| holder.fence);
            info.fence = fences.max();
        }
        Some(())
    }
}

/// Reads the holder of a share. Nothing in the answer is trusted, because any client can write any
/// member and any score into the set of shares.
fn holder(share: &Value, now: SystemTime) -> Option<Holder> {
    let [Value::BulkString(member), ends, record] = array(share)? else {
        return None;
    };
    let ends = time(text(ends)?);
    let left = ends.map(|ends| ends.duration_since(now).unwrap_or_default());
    let record = Record::read(text(record).unwrap_or_default());
    let holder = record.map_or_else(|| Holder::unknown(left), |record| record.holder(left, now));
    Some(Holder {
        revoked: member.starts_with(b"r"),
        ..holder
    })
}

/// Reads the cursor and the keys in an answer to `SCAN`. Skips keys that are not UTF-8, because the
/// keys of locks are UTF-8.
pub(crate) fn scanned(answer: Option<Value>) -> Result<(String, Vec<String>), Failure> {
    match answer {
        Some(Value::ServerError(error)) => {
            Err(failure::server_error(error.code(), error.details()))
        }
        Some(answer) => {
            let read = redis::from_redis_value::<(String, Vec<Vec<u8>>)>(answer);
            let (cursor, keys) = read.map_err(|_| shapeless())?;
            let keys = keys.into_iter();
            let keys = keys.filter_map(|key| String::from_utf8(key).ok());
            Ok((cursor, keys.collect()))
        }
        None => Err(shapeless()),
    }
}

fn shapeless() -> Failure {
    failure::garbage("an unexpected reply")
}

/// Reads a time of the server's clock, in milliseconds.
fn time(text: &str) -> Option<SystemTime> {
    let millis: f64 = text.parse().ok()?;
    let since = Duration::try_from_secs_f64(millis / 1e3).ok()?;
    (since < LATEST).then(|| SystemTime::UNIX_EPOCH + since)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if an invalid time from a server makes the client panic.
    #[test]
    fn an_impossible_server_time_is_refused() {
        let answer = |now: &str| {
            let text = |text: &str| Value::BulkString(text.into());
            let value = format!("{}:7:0:ab:h 1", "a".repeat(32));
            let none = || Value::Array(Vec::new());
            let seen = [
                text(now),
                text(&value),
                Value::Int(i64::MAX),
                none(),
                none(),
            ];
            Value::Array(seen.into())
        };
        assert!(read("k", &answer("1700000000000")).is_ok());
        for now in ["9.2e21", "1e17", "-1", "inf", "nan"] {
            assert!(read("k", &answer(now)).is_err(), "{now}");
        }
    }
}
