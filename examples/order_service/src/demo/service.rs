//! One of the two services: the same few lines, without and with the lock.

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use leasehold::{Fence, LockPool, distributed_lock};
use serde::Deserialize;

use super::ledger::{DemoOrder, Ledger};
use crate::error::ApiError;
use crate::payments::Payments;

/// State of the handlers.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) ledger: Ledger,
    pub(crate) payments: Payments,
    pub(crate) locks: LockPool,
}

#[derive(Debug, Deserialize)]
struct Switch {
    lock: bool,
}

pub(crate) fn router(service: Service) -> Router {
    Router::new()
        .route("/demo/orders/{id}", post(order))
        .with_state(service)
}

async fn order(
    State(service): State<Service>,
    Path(id): Path<String>,
    Query(switch): Query<Switch>,
) -> Result<(StatusCode, Json<DemoOrder>), ApiError> {
    if switch.lock {
        place_locked(&service, &id).await
    } else {
        place(&service, &id, None).await
    }
}

/// Looks for the order. If there is none, charges the customer and writes the order. Two calls at
/// the same time can both find no order, and then both make it.
async fn place(
    service: &Service,
    id: &str,
    fence: Option<Fence>,
) -> Result<(StatusCode, Json<DemoOrder>), ApiError> {
    if let Some(first) = service.ledger.first(id).await? {
        return Ok((StatusCode::OK, Json(first)));
    }
    service.payments.authorise(id).await?;
    let made = service.ledger.write(id, &service.name, fence).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// Like `place`, but runs only one call at a time for each order, in all services.
#[distributed_lock(key = "order:<id>", ttl = "3s", watchdog, pool = service.locks, guard = lock)]
async fn place_locked(
    service: &Service,
    id: &str,
) -> Result<(StatusCode, Json<DemoOrder>), ApiError> {
    place(service, id, lock.fence()).await
}
