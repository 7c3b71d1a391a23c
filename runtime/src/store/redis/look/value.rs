//! Parses the value of a lock's key, to show it to operators.

use std::time::{Duration, SystemTime};

use crate::base::token::Token;
use crate::fence::Fence;
use crate::inspect::info::{Holder, LockInfo, LockState};
use crate::owner::Owner;

/// A lock's start is read from its fence, which can be slightly ahead of the server's clock. A
/// start up to this far in the future is shown as the present time.
const AHEAD: Duration = Duration::from_secs(1);

/// The parsed value of a lock's key, without the token and the name of the process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written<'a> {
    Held(Record<'a>),
    /// Taken away by force. The holder's body may not have ended yet.
    Revoked(Record<'a>),
    Kept(Record<'a>),
    /// A shared lock with at most this many shares, 0 for no limit.
    Shared(u32),
    /// Reserved for a waiting process, which has not taken it yet.
    Handed,
    Foreign,
}

/// The text after the token: `fence:reserve:process:owner`. `reserve` is the number of reserved
/// fences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// In a lock's value, its fence; on a node of a quorum, the time of the acquisition in
    /// microseconds. In the record of a waiting process, the time since which the process waits, in
    /// microseconds.
    pub(crate) number: u64,
    pub(crate) owner: &'a str,
}

impl<'a> Written<'a> {
    pub(crate) fn read(value: &'a str) -> Self {
        if let Some(record) = value.strip_prefix('r').and_then(held) {
            return Self::Revoked(record.1);
        }
        match token(value) {
            Some((token, rest)) if is_all(token, b'f') => {
                rest.parse().map_or(Self::Foreign, Self::Shared)
            }
            Some((_, "claim")) => Self::Handed,
            _ => match held(value) {
                Some((token, record)) if is_all(token, b'0') => Self::Kept(record),
                Some((_, record)) => Self::Held(record),
                None => Self::Foreign,
            },
        }
    }

    /// Adds the content of the value to `info`. `left` is the remaining time of the key, if it
    /// expires.
    pub(crate) fn show(&self, info: &mut LockInfo, left: Option<Duration>, now: SystemTime) {
        let holder = match self {
            Self::Held(record) => Some(record.holder(left, now)),
            Self::Revoked(record) => Some(Holder {
                revoked: true,
                ..record.holder(left, now)
            }),
            Self::Foreign => Some(Holder::foreign(left)),
            Self::Kept(_) | Self::Shared(_) | Self::Handed => None,
        };
        info.state = match self {
            Self::Held(_) | Self::Revoked(_) | Self::Foreign => LockState::Exclusive,
            Self::Kept(_) => LockState::Kept,
            Self::Shared(0) => LockState::Shared,
            Self::Shared(limit) => LockState::Permits { limit: *limit },
            Self::Handed => LockState::Handed,
        };
        if let Self::Kept(record) = self {
            info.kept_until = left.map(|left| now + left);
            info.fence = Some(Fence::new(record.number));
        }
        info.fence = info
            .fence
            .or(holder.as_ref().and_then(|holder| holder.fence));
        info.holders.extend(holder);
    }
}

impl<'a> Record<'a> {
    /// Parses the text after the token. The owner may contain colons.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        let mut parts = text.splitn(4, ':');
        let number = parts.next()?.parse().ok()?;
        let _reserve: u64 = parts.next()?.parse().ok()?;
        let process = parts.next()?;
        let owner = parts.next()?;
        is_hex(process).then_some(Self { number, owner })
    }

    pub(crate) fn owner(&self) -> Option<Owner> {
        Owner::read(self.owner)
    }

    /// Returns the time in the number, if it can be a time. A fence is the time of the server's
    /// clock in microseconds when the lock was taken, but may be slightly ahead of that clock.
    pub(crate) fn since(&self, now: SystemTime) -> Option<SystemTime> {
        let since = SystemTime::UNIX_EPOCH + Duration::from_micros(self.number);
        (since <= now + AHEAD).then_some(since.min(now))
    }

    pub(crate) fn holder(&self, left: Option<Duration>, now: SystemTime) -> Holder {
        Holder {
            owner: self.owner(),
            since: self.since(now),
            fence: Some(Fence::new(self.number)),
            ..Holder::unknown(left)
        }
    }
}

/// Splits a value into the token and the text after the token's colon.
pub(crate) fn token(value: &str) -> Option<(&str, &str)> {
    let (token, rest) = value.split_once(':')?;
    (token.len() == Token::DIGITS && is_hex(token)).then_some((token, rest))
}

fn held(value: &str) -> Option<(&str, Record<'_>)> {
    let (token, rest) = token(value)?;
    Some((token, Record::read(rest)?))
}

fn is_all(token: &str, digit: u8) -> bool {
    token.bytes().all(|byte| byte == digit)
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn every_form_of_value_is_known() {
        let record = Record {
            number: 7,
            owner: "web-1 4711 a::b",
        };
        let rest = format!("7:16:{TOKEN}:web-1 4711 a::b");
        for (value, written) in [
            (format!("{TOKEN}:{rest}"), Written::Held(record)),
            (format!("r{TOKEN}:{rest}"), Written::Revoked(record)),
            (format!("{}:{rest}", "0".repeat(32)), Written::Kept(record)),
            (format!("{}:0", "f".repeat(32)), Written::Shared(0)),
            (format!("{}:3", "f".repeat(32)), Written::Shared(3)),
            (format!("{TOKEN}:claim"), Written::Handed),
        ] {
            assert_eq!(Written::read(&value), written, "{value}");
        }
    }

    #[test]
    fn unknown_values_are_foreign() {
        for value in [
            "",
            "shell-1",
            TOKEN,
            "a:b",
            &format!("{TOKEN}:"),
            &format!("{TOKEN}:7"),
            &format!("{TOKEN}:7:1:{TOKEN}"),
            &format!("{TOKEN}:x:1:{TOKEN}:h 1"),
            &format!("r{TOKEN}"),
            &format!("{}:x", "f".repeat(32)),
        ] {
            assert_eq!(Written::read(value), Written::Foreign, "{value}");
        }
    }

    #[test]
    fn an_impossible_fence_gives_no_start_time() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let since = |number| Record { number, owner: "" }.since(now);
        assert_eq!(since(99_000_000), Some(now - Duration::from_secs(1)));
        assert_eq!(since(100_000_016), Some(now));
        assert_eq!(since(4_000_000_000_000_000), None);
    }
}
