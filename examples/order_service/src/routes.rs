//! The HTTP handlers.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use leasehold::distributed_lock;
use serde::{Deserialize, Serialize};

use crate::db::{Db, Item, Order};
use crate::error::{ApiError, Body};
use crate::payments::Payments;
use crate::stock::{self, sell_one};

/// What every handler needs.
#[derive(Debug, Clone)]
pub(crate) struct Shop {
    pub(crate) db: Db,
    pub(crate) payments: Payments,
}

/// An order as the client sends it. The client chooses the id, and sends the same one again when it
/// is not sure that its first try arrived.
#[derive(Debug, Deserialize)]
pub(crate) struct NewOrder {
    id: String,
    sku: String,
}

#[derive(Debug, Serialize)]
struct OrderList {
    count: i64,
    latest: Vec<Order>,
}

pub(crate) fn router(shop: Shop) -> Router {
    Router::new()
        .route("/orders", post(create_order).get(list_orders))
        .route("/orders/{id}", get(show_order))
        .route("/items", get(list_items))
        .route("/items/{sku}", get(show_item))
        .route("/items/{sku}/buy", post(buy))
        .fallback(async || ApiError::NoSuchPage)
        .with_state(shop)
}

/// Makes an order once, however often it is sent and to whichever process.
///
/// Three things work together:
/// - the lock answers a second click *while the first is being processed* (409),
/// - the look into the table answers a *later* click (200, the first result),
/// - the primary key of the table refuses a duplicate that gets past both.
#[distributed_lock(key = "order:<order.id>", ttl = "10s", watchdog)]
async fn create_order(
    State(shop): State<Shop>,
    Body(order): Body<NewOrder>,
) -> Result<(StatusCode, Json<Order>), ApiError> {
    if let Some(first) = shop.db.order(&order.id).await? {
        return Ok((StatusCode::OK, Json(first)));
    }
    stock::look(&shop.db, &order.sku).await?; // before anything is charged
    shop.payments.authorise(&order.id).await?;
    let made = sell_one(&shop.db, &order.sku, &order.id).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// Sells one item for cash, with no order to repeat.
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
