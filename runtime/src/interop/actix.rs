//! [`LockError`] as an HTTP response, for actix-web.

use actix_web::http::{StatusCode, header};
use actix_web::{HttpResponse, ResponseError};

use crate::error::LockError;

/// Responds with the same status, headers and body as with the feature `axum`: see
/// [`LockError::http_status`]. The body is `application/problem+json` (RFC 9457) and does not
/// contain the key.
///
/// ```
/// use actix_web::ResponseError;
/// use leasehold::LockError;
///
/// let error = LockError::contended("order:42", None);
/// let response = error.error_response();
/// assert_eq!(response.status(), 409);
/// assert_eq!(response.headers().get("retry-after").unwrap(), "1");
/// ```
impl ResponseError for LockError {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        self.log_a_mistake();
        let mut response = HttpResponse::build(self.status_code());
        response.content_type("application/problem+json");
        if let Some(seconds) = self.retry_after_secs() {
            response.insert_header((header::RETRY_AFTER, seconds.to_string()));
        }
        response.body(self.problem())
    }
}

#[cfg(test)]
mod tests {
    use actix_web::body::MessageBody as _;

    use super::*;

    #[test]
    fn contention_is_409_with_retry_after_and_names_no_key() {
        let error = LockError::contended("order:1", None);
        let response = error.error_response();
        assert_eq!(response.status(), 409);
        assert_eq!(response.headers().get("retry-after").unwrap(), "1");
        let body = response.into_body().try_into_bytes().expect("it is whole");
        let body = String::from_utf8(body.to_vec()).expect("it is text");
        assert!(body.contains("already being processed") && !body.contains("order:1"));
    }

    #[test]
    fn an_unavailable_lock_service_is_503() {
        let response = LockError::ShuttingDown.error_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers().get("retry-after").unwrap(), "1");
    }
}
