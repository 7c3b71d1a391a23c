//! The HTTP handlers.

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use leasehold::{IdempotencyKey, distributed_lock};
use serde::{Deserialize, Serialize};

use crate::db::{Db, Item, Order};
use crate::error::{ApiError, Body};
use crate::payments::Payments;
use crate::stock::{self, sell_one};

/// State of the handlers.
#[derive(Debug, Clone)]
pub(crate) struct Shop {
    pub(crate) db: Db,
    pub(crate) payments: Payments,
}

/// An order, as sent by the client. The client chooses the id, and sends the same id again if its
/// first request may not have arrived. The id is in the header `Idempotency-Key`, or here.
#[derive(Debug, Deserialize)]
pub(crate) struct NewOrder {
    id: Option<String>,
    sku: String,
}

/// An order with its id. The whole order is the fingerprint of a request: a repetition with the
/// same id and another item is refused.
#[derive(Debug, Serialize)]
struct Request {
    id: String,
    sku: String,
}

/// Result of `create_order`, for the first click and for all later ones.
#[derive(Debug, Serialize, Deserialize)]
struct Made {
    order: Order,
    /// True if the body of the call made no order, because it found the order in the table of
    /// orders.
    before: bool,
}

#[derive(Debug, Serialize)]
struct OrderList {
    count: i64,
    latest: Vec<Order>,
}

pub(crate) fn router(shop: Shop) -> Router {
    Router::new()
        .route("/orders", post(post_order).get(list_orders))
        .route("/orders/{id}", get(show_order))
        .route("/items", get(list_items))
        .route("/items/{sku}", get(show_item))
        .route("/items/{sku}/buy", post(buy))
        .fallback(async || ApiError::NoSuchPage)
        .with_state(shop)
}

/// `POST /orders`: 201 for the first click, 200 with the same order for later ones.
async fn post_order(
    State(shop): State<Shop>,
    key: Option<IdempotencyKey>,
    Body(order): Body<NewOrder>,
) -> Result<Response, ApiError> {
    let request = order.named_by(key)?;
    let (made, replayed) = leasehold::watch_replays(create_order(shop, request)).await;
    let Made { order, before } = made?;
    let status = if before || replayed {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    let mut response = (status, Json(order)).into_response();
    if replayed {
        let headers = response.headers_mut();
        headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Makes an order once, even if it is sent several times and to different processes.
///
/// Four parts work together:
/// - The lock makes a second click wait *while the first is being processed*. After 2 s it gets
///   409.
/// - The result that `replay` keeps beside the lock answers a waiting click after the first one
///   ends, and every click within a day. Another item under the same id is answered with 422.
/// - The query of the table answers any later click.
/// - The primary key of the table refuses a duplicate that none of the other parts has stopped.
#[distributed_lock(
    key = "order:<request.id>", ttl = "10s", watchdog, wait = "2s",
    replay = "24h", fingerprint = request
)]
async fn create_order(shop: Shop, request: Request) -> Result<Made, ApiError> {
    if let Some(order) = shop.db.order(&request.id).await? {
        let before = true;
        return Ok(Made { order, before });
    }
    stock::look(&shop.db, &request.sku).await?; // before anything is charged
    shop.payments.authorise(&request.id).await?;
    let order = sell_one(&shop.db, &request.sku, &request.id).await?;
    let before = false;
    Ok(Made { order, before })
}

impl NewOrder {
    /// Takes the id from the header. If there is none, takes the id from the body.
    fn named_by(self, key: Option<IdempotencyKey>) -> Result<Request, ApiError> {
        let Self { id, sku } = self;
        let id = match (key, id) {
            (Some(key), Some(id)) if key.as_str() != id => return Err(ApiError::TwoIds),
            (Some(key), _) => key.to_string(),
            (None, Some(id)) => id,
            (None, None) => return Err(ApiError::NoId),
        };
        Ok(Request { id, sku })
    }
}

/// Sells one item for cash. The client sends no id, so each request is a separate sale.
async fn buy(
    State(shop): State<Shop>,
    Path(sku): Path<String>,
) -> Result<(StatusCode, Json<Order>), ApiError> {
    let sale = sell_one(&shop.db, &sku, &stock::cash_sale_id()).await?;
    Ok((StatusCode::CREATED, Json(sale)))
}

async fn list_orders(State(shop): State<Shop>) -> Result<Json<OrderList>, ApiError> {
    let (count, latest) = shop.db.orders().await?;
    Ok(Json(OrderList { count, latest }))
}

async fn show_order(
    State(shop): State<Shop>,
    Path(id): Path<String>,
) -> Result<Json<Order>, ApiError> {
    let order = shop.db.order(&id).await?;
    order.map(Json).ok_or(ApiError::NoSuchOrder(id))
}

async fn list_items(State(shop): State<Shop>) -> Result<Json<Vec<Item>>, ApiError> {
    Ok(Json(shop.db.items().await?))
}

async fn show_item(
    State(shop): State<Shop>,
    Path(sku): Path<String>,
) -> Result<Json<Item>, ApiError> {
    let item = shop.db.item(&sku).await?;
    item.map(Json).ok_or(ApiError::NoSuchItem(sku))
}
