//! The answers of version 0.1.0's scripts.

use std::time::Duration;

use redis::Value;

/// The answer to a request for an exclusive or a shared lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The token of the request now has the lock.
    Granted {
        /// The fence.
        fence: u64,
        /// Number of further fences after `fence`, reserved for other calls of the process.
        spare: u32,
        /// True if other processes wait in the queue.
        wanted: bool,
    },
    /// Another token has the lock.
    Held {
        /// Time until the lock, or one of its permits, expires. `None` if the lock does not expire.
        left: Option<Duration>,
        /// True if this process is in the queue, and will be notified when the lock is free for it.
        queued: bool,
    },
    /// Refused: the lock is already shared with this limit, which is greater than the requested
    /// limit.
    Limited(u32),
}

impl Answer {
    /// Parses the answer to a request that reserves `spare` further fences.
    #[track_caller]
    pub(super) fn read(value: &Value, spare: u32) -> Self {
        match value {
            // A fence alone means that the lock was free and no process waits in its queue.
            Value::BulkString(_) => Self::Granted {
                fence: number(value),
                spare,
                wanted: false,
            },
            Value::Array(parts) => Self::of(parts),
            other => panic!("an answer of another shape: {other:?}"),
        }
    }

    #[track_caller]
    fn of(parts: &[Value]) -> Self {
        match parts {
            [taken, fence, spare, wanted] if signed(taken) == 1 => Self::Granted {
                fence: number(fence),
                spare: number(spare),
                wanted: number::<u64>(wanted) > 0,
            },
            [taken, left, queued] if signed(taken) == 0 => Self::Held {
                left: u64::try_from(signed(left)).ok().map(Duration::from_millis),
                queued: signed(queued) == 1,
            },
            [taken, most] if signed(taken) == 2 => Self::Limited(number(most)),
            other => panic!("an answer of another shape: {other:?}"),
        }
    }
}

/// Returns the answer of a script called for one lock. Some scripts return a list with this answer
/// as its only element.
#[track_caller]
pub(super) fn only(value: Value) -> Value {
    match value {
        Value::Array(mut answers) if answers.len() == 1 => answers.remove(0),
        other => other,
    }
}

/// True if a script has answered 1.
#[track_caller]
pub(super) fn yes(value: Value) -> bool {
    signed(&only(value)) == 1
}

/// Parses the answer to a request for several locks, all or none. Returns their fences, or the
/// index of the lock that another token has.
#[track_caller]
pub(super) fn all_or_none(value: &Value) -> Result<Vec<u64>, usize> {
    match value {
        Value::Array(parts) => match &parts[..] {
            [taken, Value::Array(answers)] if signed(taken) == 1 => {
                Ok(answers.iter().map(fence).collect())
            }
            [_, at, _] => Err(number::<usize>(at) - 1),
            other => panic!("an answer of another shape: {other:?}"),
        },
        other => panic!("an answer of another shape: {other:?}"),
    }
}

/// Returns the fence in the answer for one of several locks. The server must have granted this
/// lock.
#[track_caller]
fn fence(answer: &Value) -> u64 {
    match Answer::read(answer, 0) {
        Answer::Granted { fence, .. } => fence,
        other => panic!("it was not taken: {other:?}"),
    }
}

#[track_caller]
fn number<T: TryFrom<i64>>(value: &Value) -> T {
    T::try_from(signed(value)).unwrap_or_else(|_| panic!("no such number: {value:?}"))
}

#[track_caller]
pub(super) fn signed(value: &Value) -> i64 {
    let number = match value {
        Value::Int(number) => Some(*number),
        Value::BulkString(text) => std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse().ok()),
        _ => None,
    };
    number.unwrap_or_else(|| panic!("no number: {value:?}"))
}
