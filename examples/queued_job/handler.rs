//! The web service: a click takes the order's lock, and passes it on to a job.

use std::error::Error;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use leasehold::LockError;
use leasehold_services::{listen_address, stop_requested};
use tokio::net::TcpListener;

use crate::orders::Orders;
use crate::queue::Queue;
use crate::{Job, TTL};

#[derive(Clone)]
struct Shop {
    queue: Queue,
    orders: Orders,
}

/// Queues an order. A second click before the end of the job gets 409, because the job has the
/// lock.
///
/// A handler may end after `hand_over` and before the job is on the queue, because of an error or
/// because its client has disconnected. Then no job has the lock. The lock expires after its ttl,
/// and the next click succeeds.
async fn create_order(
    State(shop): State<Shop>,
    Path(id): Path<String>,
) -> Result<(StatusCode, String), OrderError> {
    let request = leasehold::pool()?.lock(format!("order:{id}"));
    let guard = request.ttl(TTL).watchdog().acquire().await?;
    if shop.orders.is_made(&id).await? {
        guard.release().await?;
        return Ok((StatusCode::OK, format!("order {id} is made already\n")));
    }
    let lock = guard.hand_over()?; // this process neither renews nor releases it any more
    let order = id.clone();
    shop.queue.push(&Job { order, lock }).await?;
    Ok((StatusCode::ACCEPTED, format!("order {id} is queued\n")))
}

async fn show_order(
    State(shop): State<Shop>,
    Path(id): Path<String>,
) -> Result<(StatusCode, String), OrderError> {
    Ok(if shop.orders.is_made(&id).await? {
        (StatusCode::OK, format!("order {id} is made\n"))
    } else {
        (StatusCode::NOT_FOUND, format!("order {id} is not made\n"))
    })
}

#[derive(Debug, thiserror::Error)]
enum OrderError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("the queue: {0}")]
    Queue(#[from] redis::RedisError),
}

impl IntoResponse for OrderError {
    fn into_response(self) -> Response {
        eprintln!("{self}"); // the log has the key and the advice, the client gets neither
        match self {
            Self::Lock(error) => error.into_response(),
            Self::Queue(_) => (StatusCode::SERVICE_UNAVAILABLE, "no queue\n").into_response(),
        }
    }
}

pub(crate) async fn serve(redis: &redis::Client) -> Result<(), Box<dyn Error>> {
    let state = Shop {
        queue: Queue::open(redis).await?,
        orders: Orders::open(redis).await?,
    };
    let routes = post(create_order).get(show_order);
    let app = Router::new()
        .route("/orders/{id}", routes)
        .with_state(state);
    let stop = stop_requested()?;
    let listener = TcpListener::bind(listen_address()).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(stop)
        .await?;
    Ok(())
}
