//! The demonstration: two services on one lock store, and a page to click on.
//!
//! This program serves the page, and is the load balancer in front of the services. Each click is
//! an HTTP request to one of them. With a server for the locks, the services are separate
//! processes, which can be killed. With `memory://` they are two pools in this process.
//!
//! The few lines that matter are `place` and `place_locked` in `service.rs`.

mod client;
mod events;
mod holder;
mod ledger;
mod rounds;
mod service;
mod services;

use std::io::Read as _;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::{Html, IntoResponse};
use axum::routing::{get, post};
use axum::{Json, Router};
use leasehold::LockPool;
use tokio::sync::oneshot;

use self::events::{Event, Events};
use self::ledger::Ledger;
use self::rounds::{Ask, Demo, Verdict};
use self::service::Service;
use self::services::Services;
use crate::config::Config;
use crate::db::Db;
use crate::error::ApiError;
use crate::payments::Payments;
use crate::server::{self, StartError};

/// Starts both services, and serves the page until SIGTERM or ctrl-c.
pub(crate) async fn run(config: &Config) -> Result<(), StartError> {
    let db = server::open_database(config).await?;
    let ledger = Ledger::new(db.clone());
    let cleared = ledger.clear().await;
    cleared.map_err(|source| server::database_error(config, source))?;
    let listener = server::listen(config.listen).await?;
    let services = Services::start(config, db).await?;
    let events = Events::new();
    events.send(&Event::Services {
        services: services.views(),
    });
    println!("listening on http://{}", listener.local_addr()?);
    for at in services.running() {
        println!("service {} is {}, http://{}", at.name, at.place, at.address);
    }

    let demo = Arc::new(Demo::new(services, ledger, events.clone()));
    let stop = server::stop_signal()?;
    let stop = async move {
        stop.await;
        events.close();
    };
    axum::serve(listener, router(Arc::clone(&demo)))
        .with_graceful_shutdown(stop)
        .await?;
    demo.services().stop().await;
    Ok(())
}

/// Returns the routes that a service of the demonstration has in addition to the shop's routes.
pub(crate) fn service(name: &str, db: Db, payments: Payments, locks: LockPool) -> Router {
    service::router(Service {
        name: name.to_owned(),
        ledger: Ledger::new(db),
        payments,
        locks,
    })
}

/// Completes at the end of this process's standard input. The demonstration holds the standard
/// input of its services open. So the services end with the demonstration, even if the
/// demonstration is killed.
pub(crate) fn end_of_parent() -> impl Future<Output = ()> {
    let (ended, end) = oneshot::channel();
    // Uses a thread, because a task's read of standard input cannot be cancelled. The runtime would
    // wait for the end of this read before it could shut down.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = ended.send(());
    });
    async {
        let _ = end.await;
    }
}

fn router(demo: Arc<Demo>) -> Router {
    Router::new()
        .route("/", get(async || Html(include_str!("page.html"))))
        .route("/events", get(stream_events))
        .route("/rounds", post(play_round))
        .fallback(async || ApiError::NoSuchPage)
        .with_state(demo)
}

async fn stream_events(State(demo): State<Arc<Demo>>) -> impl IntoResponse {
    demo.events().stream()
}

async fn play_round(
    State(demo): State<Arc<Demo>>,
    Query(ask): Query<Ask>,
) -> Result<Json<Verdict>, ApiError> {
    demo.play(ask).await.map(Json)
}
