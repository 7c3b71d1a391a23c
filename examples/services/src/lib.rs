//! Nine small services to copy from. Each is a separate program, under `src/bin/` unless stated
//! otherwise.
//!
//! | program | what it is |
//! |---|---|
//! | `axum_orders` | orders over HTTP, with axum |
//! | `actix_orders` | the same with actix-web |
//! | `tonic_orders` | the same over gRPC, with tonic |
//! | `queued_job` | a handler that queues a job with its lock, and a worker that adopts it; in `../queued_job` |
//! | `cron_job` | a job that every machine's cron starts, and one machine runs |
//! | `traced_orders` | orders over HTTP with traces in OpenTelemetry, which show the lock |
//! | `repositories` | a trait with annotated methods, and an sqlx transaction inside the lock |
//! | `tested` | a service with unit tests that need no server |
//! | `operations` | start, readiness, metrics and the end of a service |
//!
//! This library only stands in for the rest of a shop: its payment provider, and some helpers. It
//! also contains the gRPC code that `tonic-prost-build` would generate from a `.proto` file.
//!
//! ```sh
//! LEASEHOLD_URL=redis://127.0.0.1/ cargo run -p leasehold-services --bin axum_orders
//! ```

pub mod payments;
pub mod shop;

/// Returns the address to listen on: the variable `LISTEN`, or port 3000 of this machine.
pub fn listen_address() -> String {
    std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned())
}

/// Returns a future that completes when the service must stop: at SIGTERM, which Kubernetes and
/// systemd send, or at ctrl-c. After this call, neither signal ends the process at once.
///
/// # Errors
///
/// Fails if the operating system cannot notify the process of signals.
#[cfg(unix)]
pub fn stop_requested() -> std::io::Result<impl Future<Output = ()>> {
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

/// Returns a future that completes at ctrl-c.
///
/// # Errors
///
/// None on this system.
#[cfg(not(unix))]
pub fn stop_requested() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    })
}
