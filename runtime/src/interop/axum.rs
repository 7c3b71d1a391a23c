//! [`LockError`] as an HTTP response, for axum.

use axum_core::body::Body;
use axum_core::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

use crate::error::LockError;

/// The response for each error:
///
/// - 409 for contention, with [`Retry-After`](LockError::retry_after_secs).
/// - 503 if the lock store is unavailable or the pool is shutting down, with `Retry-After: 1`.
/// - 400 for a value from which no valid key can be built.
/// - 422 for a `replay` call whose key has the kept result of another request.
/// - 500 for a lost lease. The work may have been done in part, and after a 503, proxies and
///   clients would automatically repeat it.
/// - 500 for a misconfigured program.
///
/// The body is `application/problem+json` (RFC 9457). It does not contain the key, because a key
/// can contain data that only one user may see.
///
/// ```
/// use axum_core::response::IntoResponse;
/// use leasehold::LockError;
///
/// let error = LockError::contended("order:42", None);
/// let response = error.into_response();
/// assert_eq!(response.status(), 409);
/// assert_eq!(response.headers()["retry-after"], "1");
/// ```
impl IntoResponse for LockError {
    fn into_response(self) -> Response {
        self.log_a_mistake();
        let mut response = Response::new(Body::from(self.problem()));
        *response.status_mut() =
            StatusCode::from_u16(self.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        let problem = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, problem);
        if let Some(seconds) = self.retry_after_secs() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn contention_is_409_with_retry_after_in_whole_seconds() {
        let error = LockError::contended("order:1", Duration::from_millis(2_001));
        let response = error.into_response();
        assert_eq!(response.status(), 409);
        assert_eq!(response.headers()["retry-after"], "3");
        assert_eq!(
            response.headers()["content-type"],
            "application/problem+json"
        );
    }

    #[test]
    fn a_wait_timeout_is_409_with_retry_after() {
        let error = LockError::timed_out("order:1", Duration::from_secs(2), None);
        let response = error.into_response();
        assert_eq!(response.status(), 409);
        assert_eq!(response.headers()["retry-after"], "1");
    }

    #[test]
    fn an_unavailable_store_is_503() {
        let response = LockError::unavailable("io", "gone").into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "1");
    }

    #[test]
    fn a_lost_lease_must_not_be_retried_by_proxies() {
        let response = LockError::lost("order:1", None).into_response();
        assert_eq!(response.status(), 500);
        assert!(!response.headers().contains_key("retry-after"));
    }

    #[test]
    fn an_invalid_key_value_is_a_client_error() {
        let error = LockError::invalid_key("order:", "the value of `<id>` is empty");
        assert_eq!(error.into_response().status(), 400);
    }

    #[test]
    fn a_program_without_a_pool_is_500() {
        assert_eq!(LockError::NotInstalled.into_response().status(), 500);
    }
}
