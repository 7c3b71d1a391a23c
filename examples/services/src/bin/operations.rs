//! The parts of a production service around its handlers: start, readiness, metrics, and shutdown.
//!
//! ```sh
//! LEASEHOLD_URL=redis://127.0.0.1/ cargo run -p leasehold-services --bin operations
//! curl -i http://127.0.0.1:3000/ready
//! curl http://127.0.0.1:3000/metrics
//! ```
//!
//! The program needs `axum`, `leasehold` with the features `axum` and `metrics`, a recorder such as
//! `metrics-exporter-prometheus`, and `tokio`.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::{get, post};
use leasehold::{LockError, distributed_lock};
use leasehold_services::{listen_address, payments, stop_requested};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tokio::net::TcpListener;

#[distributed_lock(key = "order:<id>", ttl = "10s", watchdog)]
async fn create_order(Path(id): Path<String>) -> Result<(StatusCode, String), LockError> {
    Ok(match payments::charge(&id).await {
        Ok(()) => (StatusCode::CREATED, format!("order {id} is made\n")),
        Err(_) => (StatusCode::BAD_GATEWAY, "no payment\n".to_owned()),
    })
}

/// Answers a readiness probe: 200 if locks can be taken now, otherwise 503. A load balancer sends
/// no requests to an instance that is not ready. Do not use this as a liveness probe: a restart of
/// the service does not repair Redis.
async fn ready() -> (StatusCode, String) {
    let ready = match leasehold::pool() {
        Ok(pool) => pool.ready().await,
        Err(error) => Err(error),
    };
    match ready {
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(error) => {
            eprintln!("not ready: {error}");
            let answer = format!("{}\n", error.public_message());
            (StatusCode::SERVICE_UNAVAILABLE, answer)
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    // The recorder is installed before the pool connects, because earlier metrics are lost.
    let buckets = [0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0];
    let metrics = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &buckets)?
        .install_recorder()?;
    // This call connects to the store and checks it. Without Redis, or with a wrong password, the
    // call fails, and the service does not start.
    leasehold::init_from_env().await?;
    let app = Router::new()
        .route("/orders/{id}", post(create_order))
        .route("/live", get("alive\n"))
        .route("/ready", get(ready))
        .route("/metrics", get(async move || metrics.render()));

    let stop = stop_requested()?;
    let listener = TcpListener::bind(listen_address()).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(stop) // requests in flight can finish
        .await?;

    // The pool is shut down only after the server has stopped, because handlers need their locks
    // until then. This call renews the remaining locks and waits until they are released.
    let end = leasehold::shutdown(Duration::from_secs(5)).await;
    println!(
        "stopped: {} locks still held, {} releases unconfirmed",
        end.still_held, end.unconfirmed
    );
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("operations: {error}");
            ExitCode::FAILURE
        }
    }
}
