//! [`Handover`] as a map, for serde.

use std::fmt;
use std::time::Duration;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::base::token::Token;
use crate::fence::Fence;
use crate::lock::api::handover::Handover;

impl Serialize for Handover {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let mut fields = serializer.serialize_map(Some(7))?;
        fields.serialize_entry("key", &self.key)?;
        fields.serialize_entry("namespace", &self.namespace)?;
        fields.serialize_entry("token", &self.token.hex())?;
        fields.serialize_entry("fence", &self.fence)?;
        fields.serialize_entry("ttl", &millis(self.ttl))?;
        fields.serialize_entry("watchdog", &self.watchdog.map(millis))?;
        fields.serialize_entry("max_hold", &self.max_hold.map(millis))?;
        fields.end()
    }
}

impl<'de> Deserialize<'de> for Handover {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Handover;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the handover of a lock")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Handover, A::Error> {
        let (mut key, mut namespace, mut token) = (None, None, None::<String>);
        let (mut fence, mut ttl, mut watchdog, mut max_hold) = (None::<Fence>, None, None, None);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "key" => key = Some(map.next_value()?),
                "namespace" => namespace = Some(map.next_value()?),
                "token" => token = Some(map.next_value()?),
                "fence" => fence = map.next_value()?,
                "ttl" => ttl = Some(map.next_value()?),
                "watchdog" => watchdog = map.next_value::<Option<u64>>()?,
                "max_hold" => max_hold = map.next_value::<Option<u64>>()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let missing = A::Error::missing_field;
        let token = token.ok_or_else(|| missing("token"))?;
        Ok(Handover {
            key: key.ok_or_else(|| missing("key"))?,
            namespace: namespace.ok_or_else(|| missing("namespace"))?,
            // A log may show this error, so it must not contain the token, which is secret.
            token: Token::parse(&token).ok_or_else(|| A::Error::custom("`token` is malformed"))?,
            fence,
            ttl: Duration::from_millis(ttl.ok_or_else(|| missing("ttl"))?),
            watchdog: watchdog.map(Duration::from_millis),
            max_hold: max_hold.map(Duration::from_millis),
        })
    }
}

#[cfg(all(test, feature = "replay"))]
mod tests {
    use super::*;

    fn handover() -> Handover {
        Handover {
            key: "order:42".to_owned(),
            namespace: "shop".to_owned(),
            token: Token::fixed(0xabc),
            fence: Some(Fence::new(7)),
            ttl: Duration::from_secs(10),
            watchdog: Some(Duration::from_secs(3)),
            max_hold: None,
        }
    }

    #[test]
    fn a_handover_converts_to_and_from_a_map() {
        let json = serde_json::to_string(&handover()).expect("it is JSON");
        let expected = format!(
            r#"{{"key":"order:42","namespace":"shop","token":"{:0>32}","fence":7,"ttl":10000,"watchdog":3000,"max_hold":null}}"#,
            "abc"
        );
        assert_eq!(json, expected);
        let read: Handover = serde_json::from_str(&json).expect("it is a handover");
        assert_eq!(read, handover());
        // Another version of this crate may write unknown fields, and leave out optional ones.
        let more = json.replace("\"max_hold\":null", "\"reserved\":[1]");
        assert_eq!(serde_json::from_str::<Handover>(&more).expect("read"), read);
    }

    #[test]
    fn a_wrong_token_is_refused_and_not_shown() {
        let json = serde_json::to_string(&handover()).expect("it is JSON");
        for wrong in ["abc", "+0000000000000000000000000000abc", ""] {
            let json = json.replace(&format!("{:0>32}", "abc"), wrong);
            let error = serde_json::from_str::<Handover>(&json).unwrap_err();
            let error = error.to_string();
            assert!(
                error.contains("`token`") && !error.contains("abc"),
                "{error}"
            );
        }
    }

    #[test]
    fn no_log_shows_the_token() {
        let shown = format!("{:?}", handover());
        assert!(
            shown.contains("order:42") && !shown.contains("abc"),
            "{shown}"
        );
    }
}
