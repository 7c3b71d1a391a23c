//! Orders over HTTP, with actix-web. A second click is refused while the first one is processed.
//!
//! ```sh
//! LEASEHOLD_URL=redis://127.0.0.1/ cargo run -p leasehold-services --bin actix_orders
//! curl -i -X POST http://127.0.0.1:3000/orders/42
//! ```
//!
//! It needs `actix-web` and `leasehold` with the feature `actix`.

use std::error::Error;
use std::time::Duration;

use actix_web::error::ErrorBadGateway;
use actix_web::web::Path;
use actix_web::{App, HttpResponse, HttpServer, post};
use leasehold::distributed_lock;
use leasehold_services::{listen_address, payments, stop_requested};

/// Makes an order. `actix_web::Error` converts from `LockError`, as from any `ResponseError`, so
/// this function needs no custom error type.
#[post("/orders/{id}")]
#[distributed_lock(key = "order:<id>", ttl = "10s", watchdog)]
async fn create_order(id: Path<String>) -> actix_web::Result<HttpResponse> {
    let paid = payments::charge(&id).await;
    paid.map_err(|_| ErrorBadGateway("no payment\n"))?;
    Ok(HttpResponse::Created().body(format!("order {id} is made\n")))
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn Error>> {
    leasehold::init_from_env().await?; // a service without its locks does not start
    let server = HttpServer::new(|| App::new().service(create_order))
        .shutdown_signal(stop_requested()?)
        .bind(listen_address())?;
    for address in server.addrs() {
        println!("listening on http://{address}");
    }
    server.run().await?;
    // The server has stopped, so no handler holds a lock. Some releases may still be under way, and
    // this call waits for them.
    leasehold::shutdown(Duration::from_secs(5)).await;
    Ok(())
}
