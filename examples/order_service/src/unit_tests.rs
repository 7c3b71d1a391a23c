//! Tests of the shop's answers, without a lock server and without a port. Requests go directly to
//! the router, and a test kit provides the locks. SQLite answers in real time, so the tests do not
//! pause tokio's clock.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use leasehold::testing::{Kit, Point};
use leasehold_tests::scratch::Scratch;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::db::Db;
use crate::payments::Payments;
use crate::routes::{self, Shop};

/// A shop with one kettle and a separate database.
struct TestShop {
    kit: Kit,
    router: Router,
    _scratch: Scratch,
}

impl TestShop {
    async fn open() -> Self {
        let folder = std::env::temp_dir();
        let scratch = Scratch::new(folder.to_str().expect("a path in Unicode"));
        let path = scratch.file("shop.sqlite");
        let db = Db::open_file(&path, &[("kettle".to_owned(), 1)]).await;
        let db = db.expect("a database in a folder of its own");
        let payments = Payments::new(db.clone(), Duration::ZERO);
        Self {
            kit: Kit::new(),
            router: routes::router(Shop { db, payments }),
            _scratch: scratch,
        }
    }

    async fn ask(&self, request: Request<Body>) -> Response<Body> {
        let answer = self.kit.scope(self.router.clone().oneshot(request)).await;
        answer.expect("a router answers everything")
    }

    async fn order(&self, id: &str) -> Response<Body> {
        let order = json!({ "id": id, "sku": "kettle" }).to_string();
        let request = Request::post("/orders").header(header::CONTENT_TYPE, "application/json");
        self.ask(request.body(Body::from(order)).expect("a request"))
            .await
    }

    async fn buy(&self) -> StatusCode {
        let request = Request::post("/items/kettle/buy").body(Body::empty());
        self.ask(request.expect("a request")).await.status()
    }

    async fn stock(&self) -> Value {
        let request = Request::get("/items/kettle").body(Body::empty());
        let answer = self.ask(request.expect("a request")).await;
        let bytes = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
        let item: Value = serde_json::from_slice(&bytes.expect("a body")).expect("JSON");
        item["stock"].clone()
    }
}

#[tokio::test]
async fn an_order_is_made_once() {
    let shop = TestShop::open().await;
    assert_eq!(shop.order("42").await.status(), StatusCode::CREATED);
    assert_eq!(shop.order("42").await.status(), StatusCode::OK);
    assert_eq!(shop.stock().await, 0);
}

#[tokio::test]
async fn an_order_in_progress_elsewhere_is_refused() {
    let shop = TestShop::open().await;
    let other = shop.kit.hold("order:42").await;
    let refused = shop.order("42").await;
    assert_eq!(refused.status(), StatusCode::CONFLICT);
    assert!(refused.headers().contains_key(header::RETRY_AFTER));
    assert_eq!(shop.stock().await, 1);
    other.release().await;
    assert_eq!(shop.order("42").await.status(), StatusCode::CREATED);
}

#[tokio::test]
async fn an_order_with_a_lost_lock_sells_nothing() {
    let shop = TestShop::open().await;
    shop.kit.lose_when("order:42", Point::AfterPolls(1));
    let lost = shop.order("42").await.status();
    assert_eq!(lost, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(shop.stock().await, 1);
    assert_eq!(shop.order("42").await.status(), StatusCode::CREATED);
}

#[tokio::test]
async fn nothing_is_sold_without_the_lock_store() {
    let shop = TestShop::open().await;
    shop.kit.store_down();
    let refused = shop.order("42").await.status();
    assert_eq!(refused, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(shop.stock().await, 1);
    shop.kit.store_up();
    assert_eq!(shop.buy().await, StatusCode::CREATED);
}

#[tokio::test]
async fn a_buyer_waits_for_a_buyer_of_another_process() {
    let shop = TestShop::open().await;
    let other = shop.kit.hold("item:kettle");
    let other = other.releases_after(Duration::from_millis(50)).await;
    assert_eq!(shop.buy().await, StatusCode::CREATED);
    assert_eq!(shop.buy().await, StatusCode::GONE);
    other.release().await;
    let history = shop.kit.history();
    assert!(history.is_exclusive(), "{history}");
    assert_eq!(history.grants(), 3, "{history}");
}
