//! HTTP requests, and counts of their answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// An error that ends the run.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Answer of a service, and the time between the request and the answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: bool,
    pub(crate) body: Bytes,
    pub(crate) took: Duration,
}

/// HTTP client that sends its requests to the services in turn.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: legacy::Client<HttpConnector, Body>,
    urls: Arc<[String]>,
    next: Arc<AtomicUsize>,
}

impl Client {
    pub(crate) fn new(urls: &[String]) -> Self {
        let urls = urls.iter().map(|url| url.trim_end_matches('/').to_owned());
        Self {
            http: legacy::Client::builder(TokioExecutor::new()).build_http(),
            urls: urls.collect(),
            next: Arc::default(),
        }
    }

    pub(crate) async fn post(&self, path: &str, json: String) -> Result<Answer, Failure> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.urls.len();
        let request = Request::post(format!("{}{path}", self.urls[turn]))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(json))?;
        let sent = Instant::now();
        let response = self.http.request(request).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer {
            status: head.status,
            retry_after: head.headers.contains_key(header::RETRY_AFTER),
            body,
            took: sent.elapsed(),
        })
    }
}

/// The answers of one phase.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    by_status: BTreeMap<u16, Vec<Duration>>,
}

impl Answers {
    pub(crate) fn add(&mut self, answer: &Answer) {
        let times = self.by_status.entry(answer.status.as_u16()).or_default();
        times.push(answer.took);
    }

    pub(crate) fn append(&mut self, other: Self) {
        for (status, times) in other.by_status {
            self.by_status.entry(status).or_default().extend(times);
        }
    }

    pub(crate) fn with_status(&self, status: u16) -> i64 {
        let count = self.by_status.get(&status).map_or(0, Vec::len);
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    /// Returns each status with the times of its answers, shortest first.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = (u16, Vec<Duration>)> {
        self.by_status.iter().map(|(status, times)| {
            let mut times = times.clone();
            times.sort_unstable();
            (*status, times)
        })
    }
}
