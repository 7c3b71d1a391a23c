//! [`LockError`] as an HTTP response, for axum.

use axum_core::body::Body;
use axum_core::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

use crate::error::LockError;

/// The response for each error:
///
/// - 409 for contention, with `Retry-After`: until the present lease ends, or one second if that is
///   not known.
/// - 503 if the lock service cannot serve.
/// - 400 for a value that makes no key.
/// - 500 for a lease that was lost, because the work may have been done in part.
/// - 500 for a program that is set up wrongly.
///
/// The body is `application/problem+json` (RFC 9457). It names no key: keys can contain what only
/// one user should see.
///
/// ```
/// use axum_core::response::IntoResponse;
/// use leasehold::LockError;
///
/// let error = LockError::Contended { key: "order:42".to_owned(), retry_after: None };
/// let response = error.into_response();
/// assert_eq!(response.status(), 409);
/// assert_eq!(response.headers()["retry-after"], "1");
/// ```
impl IntoResponse for LockError {
    fn into_response(self) -> Response {
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
    use crate::error::StoreError;

    #[test]
    fn contention_is_409_with_retry_after_in_whole_seconds() {
        let error = LockError::Contended {
            key: "order:1".to_owned(),
            retry_after: Some(Duration::from_millis(2_001)),
        };
        let response = error.into_response();
        assert_eq!(response.status(), 409);
        assert_eq!(response.headers()["retry-after"], "3");
        assert_eq!(
            response.headers()["content-type"],
            "application/problem+json"
        );
    }

    #[test]
    fn a_queue_that_took_too_long_is_409_with_retry_after() {
        let error = LockError::TimedOut {
            key: "order:1".to_owned(),
            waited: Duration::from_secs(2),
        };
        let response = error.into_response();
        assert_eq!(response.status(), 409);
        assert_eq!(response.headers()["retry-after"], "1");
    }

    #[test]
    fn an_unavailable_store_is_503() {
        let source = StoreError::new("io", "gone");
        let response = LockError::Unavailable { source }.into_response();
        assert_eq!(response.status(), 503);
        assert!(!response.headers().contains_key("retry-after"));
    }

    #[test]
    fn a_lost_lease_is_nothing_that_a_proxy_may_repeat() {
        let error = LockError::Lost {
            key: "order:1".to_owned(),
            fence: None,
        };
        assert_eq!(error.into_response().status(), 500);
    }

    #[test]
    fn a_value_that_makes_no_key_is_the_clients_mistake() {
        let error = LockError::InvalidKey {
            key: "order:".to_owned(),
            reason: "the value of `<id>` is empty".to_owned(),
        };
        assert_eq!(error.into_response().status(), 400);
    }

    #[test]
    fn a_program_without_a_pool_is_500() {
        assert_eq!(LockError::NotInstalled.into_response().status(), 500);
    }
}
