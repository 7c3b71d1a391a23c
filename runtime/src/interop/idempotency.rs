//! The request header `Idempotency-Key`, and the response header `Idempotency-Replayed`, for axum.

use std::fmt;
use std::future::Future;

use axum_core::body::Body;
use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use axum_core::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, header};

use crate::lock::call::observe::watch_replays;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Maximum length of a key, in characters.
const LONGEST: usize = 255;

/// Key with which a client identifies its request, from the header `Idempotency-Key` (IETF draft
/// `draft-ietf-httpapi-idempotency-key-header`). An extractor for axum.
///
/// With `replay`, the first request with a key runs, and each repeated request gets the result of
/// the first. Put this key into the key of the lock, together with the user:
/// `key = "order:<user>:<key>"`.
///
/// The key has 1 to 255 printable ASCII characters. The draft requires quotes, as in
/// `Idempotency-Key: "8e03978e-40d5"`. The same key is also accepted without quotes, if it has no
/// spaces, quotes, backslashes, commas or semicolons. A request without the header, or with an
/// invalid value, gets the status 400: see [`IdempotencyKeyRejection`].
///
/// ```
/// use std::time::Duration;
///
/// use axum_core::response::Response;
/// use leasehold::{IdempotencyKey, LockError, LockPool};
///
/// /// `async fn buy(State(pool): State<LockPool>, key: IdempotencyKey)`
/// async fn buy(pool: LockPool, key: IdempotencyKey) -> Response {
///     let day = Duration::from_secs(24 * 60 * 60);
///     let request = pool.lock(format!("order:{key}")).ttl(Duration::from_secs(10));
///     let order = async { Ok::<_, LockError>("order 42".to_owned()) };
///     key.answer(async { request.run_replayed(day, order).await? }).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = LockPool::connect("memory://").await?;
/// let key = IdempotencyKey::parse("\"8e03978e-40d5\"")?;
/// let first = buy(pool.clone(), key.clone()).await;
/// assert!(!first.headers().contains_key("idempotency-replayed"));
/// let second = buy(pool, key).await;
/// assert_eq!(second.headers()["idempotency-replayed"], "true");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

/// Reason why a request has no valid [`IdempotencyKey`]. As a response, this has the status 400 and
/// a body of the type `application/problem+json` (RFC 9457), which does not contain the key.
///
/// ```
/// use axum_core::response::IntoResponse;
/// use leasehold::{IdempotencyKey, IdempotencyKeyRejection};
///
/// let error = IdempotencyKey::parse("").unwrap_err();
/// assert_eq!(error, IdempotencyKeyRejection::Invalid);
/// assert_eq!(error.into_response().status(), 400);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdempotencyKeyRejection {
    /// The request has no header `Idempotency-Key`.
    #[error("the header Idempotency-Key is missing; send a new random key with each new request")]
    Missing,
    /// The header occurs more than once, or is not a valid key: see [`IdempotencyKey`].
    #[error("the header Idempotency-Key is not one string of 1 to 255 ASCII characters")]
    Invalid,
}

impl IdempotencyKey {
    /// Parses the value of the header `Idempotency-Key`.
    ///
    /// ```
    /// use leasehold::IdempotencyKey;
    ///
    /// assert_eq!(IdempotencyKey::parse("\"a-1\""), IdempotencyKey::parse("a-1"));
    /// assert!(IdempotencyKey::parse("a, b").is_err()); // two keys
    /// ```
    ///
    /// # Errors
    ///
    /// [`IdempotencyKeyRejection::Invalid`].
    pub fn parse(value: &str) -> Result<Self, IdempotencyKeyRejection> {
        let value = value.trim_matches([' ', '\t']);
        let key = match value.strip_prefix('"') {
            Some(rest) => unquoted(rest),
            None => value.bytes().all(is_plain).then(|| value.to_owned()),
        };
        let fits = |key: &String| (1..=LONGEST).contains(&key.len());
        key.filter(fits)
            .map(Self)
            .ok_or(IdempotencyKeyRejection::Invalid)
    }

    /// Returns the key without its quotes.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use leasehold::IdempotencyKey;
    ///
    /// assert_eq!(IdempotencyKey::parse("\"a-1\"")?.as_str(), "a-1");
    /// # Ok(()) }
    /// ```
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Runs the future `call` and returns its response. Adds the header
    /// `Idempotency-Replayed: true` if a `replay` call inside this future got a kept result.
    ///
    /// Cancel safe if `call` is. See [`IdempotencyKey`] for an example of a handler.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use leasehold::IdempotencyKey;
    ///
    /// let key = IdempotencyKey::parse("\"a-1\"")?;
    /// let response = key.answer(async { "order 42" }).await;
    /// assert!(!response.headers().contains_key("idempotency-replayed")); // nothing was replayed
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    ///
    /// If `call` panics.
    pub async fn answer<R: IntoResponse>(&self, call: impl Future<Output = R>) -> Response {
        let (response, replayed) = watch_replays(call).await;
        let mut response = response.into_response();
        if replayed {
            let headers = response.headers_mut();
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}

/// Parses `rest`, the part of a quoted string (RFC 8941) after the opening quote. Returns none for
/// an invalid string.
fn unquoted(rest: &str) -> Option<String> {
    let mut key = String::with_capacity(rest.len());
    let mut characters = rest.chars();
    loop {
        match characters.next()? {
            '"' => break,
            '\\' => match characters.next()? {
                escaped @ ('"' | '\\') => key.push(escaped),
                _ => return None,
            },
            plain @ ' '..='~' => key.push(plain),
            _ => return None,
        }
    }
    characters.next().is_none().then_some(key)
}

/// True if a key without quotes may contain this character. Not allowed are spaces, `"`, `\`, and
/// the separators of lists (`,`) and parameters (`;`) in a header.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b',' | b';')
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for IdempotencyKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = IdempotencyKeyRejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let mut values = parts.headers.get_all(KEY).iter();
        let value = values.next().ok_or(IdempotencyKeyRejection::Missing)?;
        let text = value.to_str().ok().filter(|_| values.next().is_none());
        Self::parse(text.ok_or(IdempotencyKeyRejection::Invalid)?)
    }
}

/// `Option<IdempotencyKey>` is none for a request without the header. An invalid header is still
/// refused.
impl<S: Send + Sync> OptionalFromRequestParts<S> for IdempotencyKey {
    type Rejection = IdempotencyKeyRejection;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &S,
    ) -> Result<Option<Self>, Self::Rejection> {
        match <Self as FromRequestParts<S>>::from_request_parts(parts, state).await {
            Ok(key) => Ok(Some(key)),
            Err(IdempotencyKeyRejection::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl IntoResponse for IdempotencyKeyRejection {
    fn into_response(self) -> Response {
        let body = format!(r#"{{"type":"about:blank","title":"{self}","status":400}}"#);
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        let problem = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, problem);
        response
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    async fn extracted(values: &[&[u8]]) -> Result<IdempotencyKey, IdempotencyKeyRejection> {
        let mut request = Request::builder();
        for value in values {
            let value = HeaderValue::from_bytes(value).expect("a header");
            request = request.header("Idempotency-Key", value);
        }
        let (mut parts, ()) = request.body(()).expect("a request").into_parts();
        let optional =
            <IdempotencyKey as OptionalFromRequestParts<_>>::from_request_parts(&mut parts, &())
                .await;
        let key =
            <IdempotencyKey as FromRequestParts<_>>::from_request_parts(&mut parts, &()).await;
        let missing = key == Err(IdempotencyKeyRejection::Missing);
        assert_eq!(
            optional,
            if missing {
                Ok(None)
            } else {
                key.clone().map(Some)
            }
        );
        key
    }

    #[tokio::test]
    async fn the_header_contains_exactly_one_string() {
        let longest = "x".repeat(LONGEST);
        for (value, key) in [
            (&*longest, &*longest),
            (r#""8e03978e-40d5""#, "8e03978e-40d5"),
            ("8e03978e-40d5", "8e03978e-40d5"),
            (r#" "a \"b\" \\ c, d;" "#, r#"a "b" \ c, d;"#),
            ("a:b/c=", "a:b/c="),
        ] {
            let found = extracted(&[value.as_bytes()]).await;
            assert_eq!(found.expect(value).as_str(), key);
        }
    }

    /// Fails if a request without a valid key is accepted.
    #[tokio::test]
    async fn invalid_keys_are_refused() {
        assert_eq!(extracted(&[]).await, Err(IdempotencyKeyRejection::Missing));
        let twice: [&[u8]; 2] = [b"a", b"a"];
        let long = "x".repeat(LONGEST + 1);
        let invalid: [&[u8]; 10] = [
            b"",
            b"\"\"",
            b"\"a",
            b"\"a\" ; b",
            b"\"a\\x\"",
            b"a b",
            b"a,b",
            b"\"\xc3\xbc\"",
            b"\xff",
            long.as_bytes(),
        ];
        for values in invalid.iter().map(std::slice::from_ref).chain([&twice[..]]) {
            let refused = extracted(values).await.expect_err("it is no key");
            assert_eq!(refused, IdempotencyKeyRejection::Invalid, "{values:?}");
            let response = refused.into_response();
            assert_eq!(response.status(), 400);
            assert_eq!(
                response.headers()["content-type"],
                "application/problem+json"
            );
        }
    }
}
