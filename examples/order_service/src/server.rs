//! Start, serve, stop.

use std::time::Duration;

use axum::routing::get;
use tokio::net::TcpListener;

use crate::config::Config;
use crate::db::Db;
use crate::metrics;
use crate::payments::Payments;
use crate::routes::{self, Shop};

/// Why the service does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("the metrics: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
    #[error("{0}")]
    Locks(#[from] leasehold::LockError),
    #[error("the database {path}: {source}")]
    Database { path: String, source: sqlx::Error },
    #[error("cannot listen on {address}: {source}")]
    Listen {
        address: std::net::SocketAddr,
        source: std::io::Error,
    },
    #[error("{0}")]
    Serve(#[from] std::io::Error),
}

/// Serves until SIGTERM or ctrl-c, then lets requests in flight finish and releases what is still
/// locked.
pub(crate) async fn run(config: Config) -> Result<(), StartError> {
    let metrics = metrics::install()?;
    leasehold::init_from_env().await?;
    let db = Db::open(&config.database, &config.items)
        .await
        .map_err(|source| StartError::Database {
            path: config.database.display().to_string(),
            source,
        })?;
    let payments = Payments::new(db.clone(), config.payment_ms);
    let app = routes::router(Shop { db, payments })
        .route("/metrics", get(async move || metrics.render()));

    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(|source| StartError::Listen {
            address: config.listen,
            source,
        })?;
    println!("listening on http://{}", listener.local_addr()?);
    let stop = stop_signal()?;
    axum::serve(listener, app)
        .with_graceful_shutdown(stop)
        .await?;

    // The engine renews and releases locks and ends with the process, so it is told first.
    let report = leasehold::shutdown(Duration::from_secs(5)).await;
    println!(
        "stopped: {} locks released, {} still held, {} unconfirmed",
        report.released, report.still_held, report.unconfirmed
    );
    Ok(())
}

/// Ends at SIGTERM or ctrl-c.
#[cfg(unix)]
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Ends at ctrl-c.
#[cfg(not(unix))]
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::error!(%error, "ctrl-c will not stop the service");
            std::future::pending().await
        }
    })
}
