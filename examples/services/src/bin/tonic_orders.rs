//! Orders over gRPC, with tonic. A second request for an order is refused while the first one is
//! processed.
//!
//! ```sh
//! LEASEHOLD_URL=redis://127.0.0.1/ cargo run -p leasehold-services --bin tonic_orders
//! ```
//!
//! The program needs `tonic`, `tonic-prost`, `prost`, `leasehold` with the feature `tonic`, and
//! `tokio`.

use std::error::Error;
use std::time::Duration;

use leasehold::distributed_lock;
use leasehold_services::shop::orders_server::{Orders, OrdersServer};
use leasehold_services::shop::{NewOrder, Order};
use leasehold_services::{listen_address, payments, stop_requested};
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

#[derive(Debug)]
struct Shop;

#[tonic::async_trait]
impl Orders for Shop {
    /// Makes an order. A `LockError` converts to a `Status`, so this function needs no custom error
    /// type.
    #[distributed_lock(key = "order:<request.get_ref().id>", ttl = "10s", watchdog)]
    async fn create(&self, request: Request<NewOrder>) -> Result<Response<Order>, Status> {
        let NewOrder { id } = request.into_inner();
        let paid = payments::charge(&id).await;
        paid.map_err(|_| Status::unavailable("no payment"))?;
        Ok(Response::new(Order { id }))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    leasehold::init_from_env().await?; // a service without its locks does not start
    let stop = stop_requested()?;
    let listener = TcpListener::bind(listen_address()).await?;
    println!("listening on http://{}", listener.local_addr()?);
    Server::builder()
        .add_service(OrdersServer::new(Shop))
        .serve_with_incoming_shutdown(TcpIncoming::from(listener), stop)
        .await?;
    // The server has stopped, so no handler holds a lock. Some releases may still be under way, and
    // this call waits for them.
    leasehold::shutdown(Duration::from_secs(5)).await;
    Ok(())
}
