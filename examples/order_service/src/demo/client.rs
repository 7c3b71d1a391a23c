//! The load balancer's requests to the services.

use std::net::SocketAddr;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// Reason for a missing answer.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

#[derive(Debug, Clone)]
pub(crate) struct Client(legacy::Client<HttpConnector, Body>);

impl Client {
    pub(crate) fn new() -> Self {
        Self(legacy::Client::builder(TokioExecutor::new()).build_http())
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        service: SocketAddr,
        path: &str,
    ) -> Result<Answer, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{service}{path}"))
            .body(Body::empty())?;
        let (head, body) = self.0.request(request).await?.into_parts();
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body: body.collect().await?.to_bytes(),
        })
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        Some(self.headers.get(name)?.to_str().ok()?.to_owned())
    }
}
