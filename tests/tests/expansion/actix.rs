#![allow(
    clippy::future_not_send,
    reason = "the result is kept during the release, and actix-web's responses are not `Send`"
)]

use actix_web::http::StatusCode;
use actix_web::web::{Data, Path};
use actix_web::{App, HttpResponse, Responder, ResponseError, get, post};
use leasehold::{LockError, LockPool, distributed_lock};

use super::support::{pool, tick};

#[derive(Debug)]
struct AppError(LockError);

impl std::fmt::Display for AppError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl ResponseError for AppError {
    fn status_code(&self) -> StatusCode {
        StatusCode::CONFLICT
    }
}

impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        Self(error)
    }
}

#[post("/orders/{id}")]
#[distributed_lock(key = "order:<id>", ttl = "1s", pool = locks)]
async fn below(id: Path<u64>, locks: Data<LockPool>) -> Result<HttpResponse, AppError> {
    tick().await;
    Ok(HttpResponse::Ok().body(id.to_string()))
}

#[distributed_lock(key = "order:<id>", ttl = "1s", pool = locks)]
#[get("/orders/{id}")]
async fn above(id: Path<u64>, locks: Data<LockPool>) -> Result<impl Responder, AppError> {
    tick().await;
    Ok(id.to_string())
}

#[actix_web::test]
async fn route_macros() {
    let locks = Data::new(pool().await);
    let app = App::new().app_data(locks).service(below).service(above);
    let app = actix_web::test::init_service(app).await;
    for method in [actix_web::http::Method::POST, actix_web::http::Method::GET] {
        let request = actix_web::test::TestRequest::with_uri("/orders/5").method(method);
        let body = actix_web::test::call_and_read_body(&app, request.to_request()).await;
        assert_eq!(body, "5");
    }
}
