//! What a node of a cluster answers for a slot that it does not serve, and how the next is asked.

use redis::Value;

/// Where a node of a cluster listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    /// Empty where it is the host of the node that said so.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Which node is to be asked instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) slot: u16,
    pub(crate) to: Endpoint,
    /// Only this time: the slot is on its way there.
    pub(crate) once: bool,
}

/// How a request is put that is not put as usual; the last two to a node of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RequestFlags {
    /// It shares its script with no other.
    pub(crate) alone: bool,
    /// It serves the request although the slot is still on its way to it.
    pub(crate) asking: bool,
    /// A share is renewed without a look at the queue, whose key a slot on its way may lack.
    pub(crate) without_queue: bool,
}

impl Redirect {
    /// Nothing if `answer` is another one. The text is `MOVED slot host:port`.
    pub(crate) fn read(answer: &Value) -> Option<Self> {
        let Value::ServerError(error) = answer else {
            return None;
        };
        let once = match error.code() {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let mut words = error.details()?.split_whitespace();
        let slot = words.next()?.parse().ok()?;
        // An IPv6 address has colons of its own.
        let (host, port) = words.next()?.rsplit_once(':')?;
        // A node that has no name to tell, though it should: the map tells more.
        if host == "?" {
            return None;
        }
        let to = Endpoint {
            host: host.to_owned(),
            port: port.parse().ok()?,
        };
        Some(Self { slot, to, once })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Redirect> {
        let answer = redis::parse_redis_value(format!("-{text}\r\n").as_bytes());
        Redirect::read(&answer.expect("it is an answer"))
    }

    #[test]
    fn redirects_are_read() {
        for (text, slot, host, once) in [
            ("MOVED 3999 127.0.0.1:6381", 3999, "127.0.0.1", false),
            ("ASK 0 ::1:6381", 0, "::1", true),
            ("MOVED 1 :6381", 1, "", false),
            (
                "MOVED 1 node.example.org:6381",
                1,
                "node.example.org",
                false,
            ),
        ] {
            let expected = Redirect {
                slot,
                to: Endpoint {
                    host: host.to_owned(),
                    port: 6381,
                },
                once,
            };
            assert_eq!(read(text), Some(expected), "{text}");
        }
        for text in [
            "MOVED",
            "ASK 1 ?:6381",
            "MOVED x y:1",
            "ASK 1 y",
            "TRYAGAIN 1 y:1",
            "ERR",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
