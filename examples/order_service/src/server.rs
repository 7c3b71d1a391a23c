//! Start, operation and end of the service.

use std::net::SocketAddr;
use std::time::Duration;

use axum::routing::get;
use leasehold::LockError;
use tokio::net::TcpListener;

use crate::config::Config;
use crate::db::Db;
use crate::demo;
use crate::metrics;
use crate::payments::Payments;
use crate::routes::{self, Shop};

/// An error that prevents the service from running.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("the metrics: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
    #[error("{0}")]
    Locks(#[from] LockError),
    #[error("the database {what}: {source}")]
    Database { what: String, source: sqlx::Error },
    #[error("cannot listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("{0}")]
    Serve(#[from] std::io::Error),
    #[error("service {0} of the demonstration did not start; see the lines above")]
    Service(&'static str),
}

/// Serves until SIGTERM or ctrl-c. Then lets requests in flight finish, and releases the remaining
/// locks.
pub(crate) async fn run(config: Config) -> Result<(), StartError> {
    if config.demo {
        return demo::run(&config).await;
    }
    let metrics = metrics::install()?;
    install_locks(&config).await?;
    let db = open_database(&config).await?;
    let payments = Payments::new(db.clone(), config.payment_ms);
    let mut app = routes::router(Shop {
        db: db.clone(),
        payments: payments.clone(),
    })
    .route("/metrics", get(async move || metrics.render()));
    let mut parent = None;
    if let Some(name) = config.demo_service {
        app = app.merge(demo::service(&name, db, payments, leasehold::pool()?));
        parent = Some(demo::end_of_parent());
    }

    let listener = listen(config.listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let stop = stop_signal()?;
    let stop = async move {
        match parent {
            Some(parent) => tokio::select! { () = stop => {}, () = parent => {} },
            None => stop.await,
        }
    };
    axum::serve(listener, app)
        .with_graceful_shutdown(stop)
        .await?;

    // The engine, which renews and releases the locks, ends with the process. So the process first
    // waits for the last releases.
    let report = leasehold::shutdown(Duration::from_secs(5)).await;
    println!(
        "stopped: {} locks released, {} still held, {} unconfirmed",
        report.released, report.still_held, report.unconfirmed
    );
    Ok(())
}

pub(crate) async fn open_database(config: &Config) -> Result<Db, StartError> {
    let opened = Db::open(config).await;
    opened.map_err(|source| database_error(config, source))
}

pub(crate) fn database_error(config: &Config, source: sqlx::Error) -> StartError {
    let file = config.database.display().to_string();
    StartError::Database {
        // Does not show the URL of `--store`, which may contain a password.
        what: config.store.as_ref().map_or(file, |_| "of --store".into()),
        source,
    }
}

pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| StartError::Listen { address, source })
}

/// Connects and installs the lock pool: from `LEASEHOLD_URL`, or in the database of `--store`.
async fn install_locks(config: &Config) -> Result<(), LockError> {
    let Some(url) = &config.store else {
        return leasehold::init_from_env().await;
    };
    let mark = if url.contains('?') { '&' } else { '?' };
    // With `migrate=1`, the pool creates the tables of the locks if they are missing.
    leasehold::init(&format!("{url}{mark}migrate=1")).await
}

/// Completes at SIGTERM or ctrl-c.
#[cfg(unix)]
pub(crate) fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
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

/// Completes at ctrl-c.
#[cfg(not(unix))]
pub(crate) fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::error!(%error, "ctrl-c will not stop the service");
            std::future::pending().await
        }
    })
}
