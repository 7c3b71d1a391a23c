//! Tests with fixed JSON texts. With any features of `serde_json`, a build must compute the
//! fingerprint of a request from the same text, and must read the same value from a kept result.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, from_str, json};

use crate::lock::call::json::{canonical, checked, read};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Amount {
    Price(f64),
    Count(HashMap<String, String>),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    z: u128,
    a: f32,
    #[serde(flatten)]
    amounts: BTreeMap<String, Amount>,
}

fn order() -> Order {
    Order {
        z: u128::MAX,
        a: 0.1,
        amounts: BTreeMap::from([("price".to_owned(), Amount::Price(1e21))]),
    }
}

/// `scripts/check` runs the tests of this file in a build with the features `preserve_order` and
/// `arbitrary_precision` of `serde_json`. Fails if this build does not have both features.
#[test]
#[ignore = "needs features of serde_json: `scripts/check` runs it"]
fn this_build_has_other_features() {
    let value: Value = from_str(r#"{"b": 1.50, "a": 0}"#).expect("it is JSON");
    assert_eq!(value.to_string(), r#"{"b":1.50,"a":0}"#);
}

/// Fails if a build with other features of `serde_json` computes fingerprints from another text of
/// the same request.
#[test]
fn requests_are_the_same_in_every_build() {
    let body = r#"{"z": 1.50, "a": {"d": 1e2, "c": [100, 1.0, -0.0, 1e20]}, "b": 0.1}"#;
    let body: Value = from_str(body).expect("it is JSON");
    let text = r#"{"a":{"c":[1e2,1e0,0,1e20],"d":1e2},"b":1e-1,"z":15e-1}"#;
    is_request(&body, text);
    is_request(
        &json!({"z": 1, "a": null, "b": "1.0"}),
        r#"{"a":null,"b":"1.0","z":1e0}"#,
    );
    let text = r#"{"a":1e-1,"price":1e21,"z":340282366920938463463374607431768211455e0}"#;
    is_request(&order(), text);
    is_request(
        &(0.1_f32, 0.1_f64, 16_777_216.0_f32),
        "[1e-1,1e-1,16777216e0]",
    );
}

fn is_request(request: &impl Serialize, text: &str) {
    let json = serde_json::to_string(request).expect("it is JSON");
    assert_eq!(canonical(&json), text);
}

/// Fails if a build with other features of `serde_json` refuses to keep one of these results, or
/// reads another value from a kept result.
#[test]
fn results_are_the_same_in_every_build() {
    let text = r#"{"z":340282366920938463463374607431768211455,"a":0.1,"price":1e+21}"#;
    is_read(text, &order());
    is_read("1.5", &Amount::Price(1.5));
    is_read(
        "[0.1,1e300]",
        &vec![Amount::Price(0.1), Amount::Price(1e300)],
    );
    let value = json!({"price": 0.1, "count": 3, "big": 18_446_744_073_709_551_615_u64});
    is_read(
        r#"{"count":3,"big":18446744073709551615,"price":0.1}"#,
        &value,
    );
    for value in [json!(0.1), json!(1e300), json!(-5), value] {
        let json = checked(&value).expect("every build reads it");
        is_read(&json, &value);
    }
    checked(&order()).expect("every build reads it");
    // A build with `arbitrary_precision` reads these numbers exactly, but must not keep them. A
    // build without this feature would read other numbers from the kept text, or none.
    for number in [
        "123456789012345678901234567890",
        "0.12345678901234567890",
        "1e400",
    ] {
        let Ok(value) = from_str::<Value>(number) else {
            continue;
        };
        let is_exact = serde_json::to_string(&value).is_ok_and(|json| json == number);
        assert!(!is_exact || checked(&value).is_err(), "{number}");
    }
}

fn is_read<T: Serialize + DeserializeOwned + PartialEq + Debug>(json: &str, value: &T) {
    let reading = read::<T>(json).expect("it is the JSON of this type");
    assert_eq!(&reading.value, value, "{json}");
}
