//! A function that finds the ends of Redis messages, in RESP2 and RESP3.

/// The length of the first whole message in `bytes`, or `None` while it is incomplete.
///
/// A line that is not RESP counts as one message, so that the proxy also forwards invalid lines.
pub(super) fn message(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let head = line + 2;
    let count = || std::str::from_utf8(&bytes[1..line]).ok()?.parse().ok();
    match bytes[0] {
        b'$' | b'=' | b'!' => whole_bulk(bytes, head, count()),
        b'*' | b'~' | b'>' => elements(bytes, head, count(), 1),
        b'%' => elements(bytes, head, count(), 2),
        // An attribute and the message that follows it count as one message.
        b'|' => {
            let attribute = elements(bytes, head, count(), 2)?;
            Some(attribute + message(&bytes[attribute..])?)
        }
        _ => Some(head),
    }
}

fn whole_bulk(bytes: &[u8], head: usize, length: Option<i64>) -> Option<usize> {
    let end = match usize::try_from(length.unwrap_or(-1)) {
        Ok(length) => head + length + 2,
        Err(_) => head,
    };
    (bytes.len() >= end).then_some(end)
}

fn elements(bytes: &[u8], head: usize, count: Option<i64>, each: i64) -> Option<usize> {
    let mut end = head;
    for _ in 0..count.unwrap_or(0).max(0) * each {
        end += message(bytes.get(end..).filter(|rest| !rest.is_empty())?)?;
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::message;

    #[test]
    fn a_message_ends_with_its_last_element() {
        for whole in [
            "+OK\r\n",
            ":12\r\n",
            "$-1\r\n",
            "$5\r\na\r\nbc\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*2\r\n$3\r\nGET\r\n*1\r\n:1\r\n",
            "%1\r\n+k\r\n$1\r\nv\r\n",
            ">2\r\n+message\r\n_\r\n",
            "|1\r\n+ttl\r\n:3\r\n+OK\r\n",
        ] {
            let followed = format!("{whole}+next\r\n");
            assert_eq!(message(followed.as_bytes()), Some(whole.len()), "{whole:?}");
            for cut in 0..whole.len() {
                assert_eq!(
                    message(&whole.as_bytes()[..cut]),
                    None,
                    "{whole:?} at {cut}"
                );
            }
        }
    }
}
