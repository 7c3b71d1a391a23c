use axum::Router;
use axum::debug_handler;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use leasehold::{LockError, LockPool, distributed_lock};

use super::support::{pool, tick};

struct AppError(LockError);

impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        Self(error)
    }
}

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        (StatusCode::CONFLICT, self.0.to_string()).into_response()
    }
}

#[derive(Clone)]
struct App {
    locks: LockPool,
}

#[debug_handler]
#[distributed_lock(key = "order:<id>", ttl = "1s", pool = app.locks)]
async fn above(State(app): State<App>, Path(id): Path<u64>) -> Result<String, AppError> {
    tick().await;
    Ok(id.to_string())
}

#[distributed_lock(key = "order:<id>:<line>", ttl = "1s", pool = app.locks)]
#[debug_handler]
async fn below(
    State(app): State<App>,
    Path((id, line)): Path<(u64, u8)>,
) -> Result<impl IntoResponse, AppError> {
    tick().await;
    Ok((StatusCode::CREATED, (id + u64::from(line)).to_string()))
}

fn router(app: App) -> Router {
    Router::new()
        .route("/orders/{id}", post(above))
        .route("/orders/{id}/{line}", get(below))
        .with_state(app)
}

#[tokio::test]
async fn handlers() {
    let app = App {
        locks: pool().await,
    };
    let _router = router(app.clone());
    let above = above(State(app.clone()), Path(4)).await;
    assert_eq!(above.ok().as_deref(), Some("4"));
    let below = below(State(app), Path((4, 1))).await;
    let status = below.map(|body| body.into_response().status()).ok();
    assert_eq!(status, Some(StatusCode::CREATED));
}
