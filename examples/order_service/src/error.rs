//! Errors, as JSON over HTTP.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold::LockError;
use serde::de::DeserializeOwned;
use serde_json::json;

/// All errors that a handler can return.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// Status 409 with `Retry-After` while another call holds the lock, status 503 while the lock
    /// store is unavailable, and other statuses for other errors.
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("the item is in great demand; try again in a second")]
    Busy,
    #[error("this request took too long and another one was served meanwhile; nothing was sold")]
    TooLate,
    #[error("`{0}` is sold out")]
    SoldOut(String),
    #[error("there is no item `{0}`")]
    NoSuchItem(String),
    #[error("there is no order `{0}`")]
    NoSuchOrder(String),
    #[error("the order has no id; send the header Idempotency-Key, or the field `id`")]
    NoId,
    #[error("the header Idempotency-Key and the field `id` differ")]
    TwoIds,
    #[error("there is no such page; `order_service --demo` has one to click on")]
    NoSuchPage,
    #[error("a round is running; wait for its end")]
    RoundIsRunning,
    #[error("{0}")]
    NoSuchRound(&'static str),
    #[error("{0}")]
    BadRequest(#[from] JsonRejection),
    #[error("the database cannot serve")]
    Database(#[from] sqlx::Error),
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = match self {
            // The id from the client cannot be a key, for example because it is empty or far too
            // long. The text of the error names the key, so it is only for the log.
            Self::Lock(error @ LockError::InvalidKey { .. }) => {
                tracing::debug!(%error, "a request without a key");
                let detail = error.public_message();
                return problem(StatusCode::UNPROCESSABLE_ENTITY, detail);
            }
            Self::Lock(error) => return error.into_response(),
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            // A late write gets the same status as a lost lease. With 503, proxies would
            // automatically repeat the request, although a part of its work may be done.
            Self::TooLate => StatusCode::INTERNAL_SERVER_ERROR,
            Self::RoundIsRunning => StatusCode::TOO_MANY_REQUESTS,
            Self::NoSuchRound(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::SoldOut(_) => StatusCode::GONE,
            Self::NoSuchItem(_) | Self::NoSuchOrder(_) | Self::NoSuchPage => StatusCode::NOT_FOUND,
            Self::NoId | Self::TwoIds => StatusCode::BAD_REQUEST,
            Self::BadRequest(ref rejection) => rejection.status(),
            Self::Database(ref error) => {
                tracing::error!(%error, "the database");
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        problem(status, &self.to_string())
    }
}

/// Returns a problem document in the same format as that of a `LockError`.
fn problem(status: StatusCode, detail: &str) -> Response {
    let body = json!({
        "type": "about:blank",
        "title": status.canonical_reason(),
        "status": status.as_u16(),
        "detail": detail,
    });
    let mut response = (status, Json(body)).into_response();
    let headers = response.headers_mut();
    let problem_json = header::HeaderValue::from_static("application/problem+json");
    headers.insert(header::CONTENT_TYPE, problem_json);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    }
    response
}

/// A JSON body. If it is malformed, the client gets an error in JSON as well.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let Json(body) = Json::from_request(request, state).await?;
        Ok(Self(body))
    }
}
