//! Redirects in a cluster. A node that does not serve the slot of a request answers with a
//! redirect, which names another node. The request must then be sent to that node.

use redis::Value;

/// Address of a node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    /// Name or IP address. Empty in a redirect to another port of the host that sent the redirect.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Redirect of a request: the node to which the request must be sent instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) slot: u16,
    pub(crate) to: Endpoint,
    /// True if only this request must be sent to `to`, because the slot is still moving there
    /// (`ASK`). False if the slot has moved (`MOVED`).
    pub(crate) once: bool,
}

/// Deviations from the usual way to send a request. `asking` and `without_queue` are for a node of
/// a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RequestFlags {
    /// True if the request must be sent in its own script, because the server refused a script that
    /// served it together with other requests.
    pub(crate) alone: bool,
    /// True if the request must be preceded by `ASKING`: the node then serves it although the slot
    /// is still moving to that node.
    pub(crate) asking: bool,
    /// True if a share must be renewed without access to the queue: while a slot moves, the queue's
    /// key may be on the other node.
    pub(crate) without_queue: bool,
}

impl Redirect {
    /// Reads a redirect, in the form `MOVED slot host:port` or `ASK slot host:port`. Returns `None`
    /// for any other answer.
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
        // The port follows the last colon, because an IPv6 address contains colons, too.
        let (host, port) = words.next()?.rsplit_once(':')?;
        // A `?` means that the answering node does not know the host of the other node. The request
        // then fails, and the store reads the cluster's slot map, which may contain the host.
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
