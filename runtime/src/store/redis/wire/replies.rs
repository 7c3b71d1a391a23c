//! Parses complete replies.

use redis::{RedisResult, Value, parse_redis_value};

/// Returns the value of a reply.
///
/// Parses numbers, texts and lists itself, which is faster than the parser of the crate `redis`.
/// The scripts return only these types. That parser reads all other replies.
pub(crate) fn read(reply: &[u8]) -> RedisResult<Value> {
    match usual(reply) {
        Some((value, [])) => Ok(value),
        _ => parse_redis_value(reply),
    }
}

/// Returns the first value, and the bytes after it. `None` for types that the scripts do not
/// return.
fn usual(bytes: &[u8]) -> Option<(Value, &[u8])> {
    let (kind, bytes) = bytes.split_first()?;
    let end = bytes.iter().position(|byte| *byte == b'\r')?;
    let (line, rest) = (&bytes[..end], bytes.get(end + 2..)?);
    match kind {
        b':' => Some((Value::Int(number(line)?), rest)),
        b'+' if line == b"OK" => Some((Value::Okay, rest)),
        b'_' => Some((Value::Nil, rest)),
        b'$' | b'*' if line == b"-1" => Some((Value::Nil, rest)),
        b'$' => {
            let (text, rest) = rest.split_at_checked(usize::try_from(number(line)?).ok()?)?;
            Some((Value::BulkString(text.to_vec()), rest.get(2..)?))
        }
        b'*' => {
            let count = usize::try_from(number(line)?).ok()?;
            let (mut values, mut rest) = (Vec::with_capacity(count.min(rest.len())), rest);
            for _ in 0..count {
                let (value, behind) = usual(rest)?;
                values.push(value);
                rest = behind;
            }
            Some((Value::Array(values), rest))
        }
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
