//! The server's answer to `INFO`.

use redis::Value;

/// The text of an answer to `INFO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Info(String);

/// A server's role, and the number of its replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) is_master: bool,
    /// Number of replicas connected to the server, or known to its Sentinels, if they know of more.
    pub(crate) replicas: u32,
}

impl Info {
    /// Reads an answer. Returns `None` if the server did not answer with text, for example because
    /// the permission is missing.
    pub(crate) fn read(answer: Option<&Value>) -> Option<Self> {
        let text = match answer? {
            Value::BulkString(text) => String::from_utf8_lossy(text).into_owned(),
            Value::VerbatimString { text, .. } | Value::SimpleString(text) => text.clone(),
            _ => return None,
        };
        Some(Self(text))
    }

    /// Returns the value of the line `name:value`.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            (found == name).then_some(value.trim())
        })
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.field(name)?.parse().ok()
    }

    pub(crate) fn role(&self) -> Option<Role> {
        Some(Role {
            is_master: self.field("role")? == "master",
            replicas: self.number("connected_slaves").unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "# Replication\r\nrole:master\r\nconnected_slaves:2\r\nmaster_replid:x\r\n";
        let info = Info::read(Some(&Value::BulkString(text.into()))).expect("it is a text");
        let role = Role {
            is_master: true,
            replicas: 2,
        };
        assert_eq!(info.role(), Some(role));
        assert_eq!(info.field("connected"), None);
        assert_eq!(Info::read(Some(&Value::Int(1))), None);
    }
}
