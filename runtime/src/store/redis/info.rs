//! What a server says of itself, `INFO`.

use redis::Value;

/// The text of an `INFO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Info(String);

impl Info {
    /// Nothing if the server did not answer with one, which a missing permission does.
    pub(crate) fn read(answer: Option<&Value>) -> Option<Self> {
        let text = match answer? {
            Value::BulkString(text) => String::from_utf8_lossy(text).into_owned(),
            Value::VerbatimString { text, .. } | Value::SimpleString(text) => text.clone(),
            _ => return None,
        };
        Some(Self(text))
    }

    /// The value of the line `name:value`.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            (found == name).then_some(value.trim())
        })
    }

    /// A field that is a number.
    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.field(name)?.parse().ok()
    }
}
