//! Calls with a kept result: they run their body once, and later calls get its result.
//!
//! [`Recorded`] is the body of such a call. After `Ok`, it writes the value as JSON. It does so in
//! the poll of the body, so that a panic of `Serialize` is treated like a panic of the body. The
//! release then sends the JSON to the store. A call answered from a kept result drops its body
//! unpolled.

use std::marker::PhantomData;
use std::task::{Context, Poll, ready};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::body::Body;
use super::body::slot::{Json, Slot};
use super::json;
use crate::base::seeded::seeded;
use crate::base::{codes, reporter};
use crate::error::LockError;
use crate::store::kept::Fingerprint;

/// The return type of a function with `replay`. The parameter `Hint` only improves rustc's message
/// for return types without this trait.
#[diagnostic::on_unimplemented(
    message = "`replay` keeps the value of `Ok` as JSON, but `{Self}` has none that can be kept",
    label = "this cannot be kept",
    note = "return a `Result` whose `Ok` is `serde::Serialize` and `serde::de::DeserializeOwned`, or leave `replay` out"
)]
pub trait Replayable<Hint>: Sized {
    /// Returns the JSON of the value of `Ok`, or an error if the JSON cannot be read back as the
    /// same value. Returns none for `Err`.
    fn to_json(&self) -> Option<Result<String, serde_json::Error>>;

    /// Reads this JSON as the value of `Ok`.
    fn from_json(json: &str) -> Result<Self, serde_json::Error>;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned, E, Hint> Replayable<Hint> for Result<T, E> {
    fn to_json(&self) -> Option<Result<String, serde_json::Error>> {
        match self {
            Ok(value) => Some(json::checked(value)),
            Err(_) if seeded!(RecordedAfterErr) => Some(Ok("null".to_owned())),
            Err(_) => None,
        }
    }

    fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        json::read(json).map(|reading| Ok(reading.value))
    }
}

/// A body that writes its value as JSON after `Ok`, for the store to keep.
pub(crate) struct Recorded<B, T, Hint> {
    body: B,
    json: Option<Json>,
    value: PhantomData<fn(T, Hint)>,
}

impl<B, T, Hint> Recorded<B, T, Hint> {
    pub(crate) fn new(body: B) -> Self {
        Self {
            body,
            json: None,
            value: PhantomData,
        }
    }

    pub(crate) fn body(&mut self) -> &mut B {
        &mut self.body
    }
}

impl<B: Body + Slot<T>, T: Replayable<Hint>, Hint> Body for Recorded<B, T, Hint> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let good = ready!(self.body.poll(cx));
        let json = self.body.look(T::to_json).flatten();
        self.json = json.map(|json| json.map_err(|error| error.to_string()));
        Poll::Ready(good)
    }

    fn clear(&mut self) {
        self.body.clear();
    }

    fn take_json(&mut self) -> Option<Json> {
        self.json.take()
    }

    fn fill(&mut self, json: &str) -> Result<(), String> {
        let value = T::from_json(json).map_err(|error| error.to_string())?;
        self.body.put(value);
        Ok(())
    }
}

/// Returns the SHA-256 of the canonical JSON of `value`, in which maps are sorted and each number
/// has one form.
pub(crate) fn fingerprint(value: &(impl Serialize + ?Sized)) -> Result<Fingerprint, LockError> {
    let json = serde_json::to_string(value).map_err(|error| {
        LockError::config(format!(
            "the `fingerprint` cannot be written as JSON: {error}; build it from strings, numbers, \
             lists and maps with string keys"
        ))
    })?;
    Ok(Fingerprint(Sha256::digest(json::canonical(&json)).into()))
}

/// Returns the JSON of the result of `key` for the store. Returns none and logs a warning if the
/// JSON cannot be read back as the same value, or exceeds the pool's limit.
pub(super) fn within(key: &str, json: Json, limit: usize) -> Option<Box<str>> {
    let key = key.to_owned();
    match json {
        Ok(json) if json.len() <= limit => return Some(json.into()),
        Ok(json) => {
            let bytes = json.len();
            reporter::log(move || {
                tracing::warn!(
                    code = codes::RESULT_TOO_LARGE,
                    key,
                    bytes,
                    limit,
                    "the result is not kept: it is larger than the pool's `replay_limit`; a later call runs again"
                );
            });
        }
        Err(error) => reporter::log(move || {
            tracing::warn!(
                code = codes::RESULT_NOT_JSON,
                key,
                error,
                "the result is not kept: its JSON does not convert back to the same value; a later \
                 call runs again"
            );
        }),
    }
    None
}

/// Returns the error for a kept result that cannot be read, because an earlier version of the
/// function returned another type.
pub(crate) fn unreadable(key: &str, why: &str) -> LockError {
    LockError::config(format!(
        "the kept result of `{key}` cannot be read: {why}; this function used to return another \
         type. Forget the result with `pool.forget(…)`, or give the function another key"
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    /// Fails if the fingerprint of a map depends on the order in which its entries are iterated.
    #[test]
    fn the_fingerprint_ignores_the_order_of_a_map() {
        let names = ["a", "b", "c", "d", "e", "f"];
        let sorted: BTreeMap<_, _> = names.iter().map(|name| (name, 1)).collect();
        let expected = fingerprint(&sorted).expect("it is JSON");
        for _ in 0..20 {
            let unsorted: HashMap<_, _> = names.iter().map(|name| (name, 1)).collect();
            let print = fingerprint(&[("x", &unsorted)]).expect("it is JSON");
            assert!(print == fingerprint(&[("x", &sorted)]).expect("it is JSON"));
            assert!(fingerprint(&unsorted).expect("it is JSON") == expected);
        }
    }

    /// Fails if two different values have the same fingerprint.
    #[test]
    fn different_requests_have_different_fingerprints() {
        let texts = [
            fingerprint("1"),
            fingerprint(&1),
            fingerprint(&1.5),
            fingerprint(&[1, 1]),
            fingerprint(&[11]),
            fingerprint(&["1", "1"]),
            fingerprint(&["1,1"]),
            fingerprint(&BTreeMap::from([("a", "b")])),
            fingerprint(&BTreeMap::from([("a:b", "")])),
            fingerprint(&[[1], [2]]),
            fingerprint(&[[1, 2]]),
            fingerprint(&u128::MAX),
            fingerprint(&(u128::MAX - 1)),
        ];
        let prints: Vec<_> = texts.into_iter().map(|print| print.unwrap().0).collect();
        for (index, print) in prints.iter().enumerate() {
            assert!(!prints[index + 1..].contains(print), "{index}");
        }
    }

    #[test]
    fn values_without_json_are_refused() {
        let error = fingerprint(&BTreeMap::from([((1, 2), 3)])).unwrap_err();
        assert!(error.to_string().contains("`fingerprint`"), "{error}");
    }
}
