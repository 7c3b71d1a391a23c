//! A page to click on.

use axum::response::Html;

pub(crate) async fn index() -> Html<&'static str> {
    Html(include_str!("page.html"))
}
