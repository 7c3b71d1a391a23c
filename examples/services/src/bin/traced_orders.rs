//! Orders over HTTP, with a trace of each request in OpenTelemetry. The trace shows how long the
//! request waited for the lock and held it, and the work inside the lock.
//!
//! ```sh
//! export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317    # a collector, Jaeger or Tempo
//! LEASEHOLD_URL=redis://127.0.0.1/ cargo run -p leasehold-services --bin traced_orders
//! curl -i -X POST http://127.0.0.1:3000/orders/42
//! ```
//!
//! The program needs `axum`, `leasehold` with the feature `axum`, `opentelemetry`,
//! `opentelemetry_sdk`, `opentelemetry-otlp`, `tracing`, `tracing-opentelemetry`,
//! `tracing-subscriber`, `thiserror` and `tokio`.

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use leasehold::{LockError, distributed_lock};
use leasehold_services::{listen_address, payments, stop_requested};
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::net::TcpListener;
use tracing::{Instrument as _, Level, field};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Sends spans to the collector: those of this program, and those of leasehold, which have the
/// target `leasehold`. Omits the spans of the exporter's own connection, because sending them would
/// create further spans.
fn install_traces() -> Result<SdkTracerProvider, Box<dyn Error>> {
    let exporter = SpanExporter::builder().with_tonic().build()?;
    let provider = SdkTracerProvider::builder()
        .with_resource(Resource::builder().with_service_name("orders").build())
        .with_batch_exporter(exporter)
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("orders"));
    let targets = Targets::new()
        .with_target("leasehold", Level::INFO)
        .with_target(env!("CARGO_CRATE_NAME"), Level::INFO);
    tracing_subscriber::registry()
        .with(layer)
        .with(targets)
        .try_init()?;
    Ok(provider)
}

/// Makes an order. The spans of the lock are inside the request's span: `leasehold::acquire`, and
/// then `leasehold::held` around the body.
#[distributed_lock(key = "order:<id>", ttl = "10s", watchdog)]
async fn create_order(Path(id): Path<String>) -> Result<(StatusCode, String), OrderError> {
    let charge = tracing::info_span!("charge");
    payments::charge(&id).instrument(charge).await?;
    Ok((StatusCode::CREATED, format!("order {id} is made\n")))
}

/// Runs a request inside a span. The span belongs to the trace that the caller's header
/// `traceparent` names.
async fn traced(request: Request, next: Next) -> Response {
    let span = tracing::info_span!(
        "request",
        otel.kind = "server",
        http.request.method = request.method().as_str(),
        http.response.status_code = field::Empty,
    );
    let caller = TraceContextPropagator::new().extract(&Headers(request.headers()));
    // An error means that no layer records the span. Such a span needs no parent.
    let _ = span.set_parent(caller);
    let response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", response.status().as_u16());
    response
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(axum::http::HeaderName::as_str).collect()
    }
}

#[derive(Debug, thiserror::Error)]
enum OrderError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("the payment provider: {0}")]
    Payment(#[from] std::io::Error),
}

impl IntoResponse for OrderError {
    fn into_response(self) -> Response {
        eprintln!("{self}");
        match self {
            Self::Lock(error) => error.into_response(),
            Self::Payment(_) => (StatusCode::BAD_GATEWAY, "no payment\n").into_response(),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let traces = install_traces()?;
    leasehold::init_from_env().await?;
    let app = Router::new()
        .route("/orders/{id}", post(create_order))
        .layer(from_fn(traced));
    let stop = stop_requested()?;
    let listener = TcpListener::bind(listen_address()).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(stop)
        .await?;
    leasehold::shutdown(Duration::from_secs(5)).await;
    traces.shutdown()?; // sends the spans collected so far
    Ok(())
}
