//! Test of the gRPC status of a refused call. A server sends the status over a connection, and a
//! client decodes it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use leasehold::{Fairness, LockPool, distributed_lock};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt as _;

const TTL: Duration = Duration::from_secs(20);
const HINT: Duration = Duration::from_millis(2_500);
const UNKNOWN: Duration = Duration::from_secs(1);

/// Codec for requests and answers that are empty messages.
type Codec = ProstCodec<(), ()>;

/// The service `shop.Orders`, with one method.
#[derive(Clone)]
struct Orders(LockPool);

#[distributed_lock(key = "order:42", ttl = "20s", watchdog, pool = pool)]
async fn create(pool: LockPool) -> Result<Response<()>, Status> {
    Ok(Response::new(()))
}

impl UnaryService<()> for Orders {
    type Response = ();
    type Future = BoxFuture<Response<()>, Status>;

    fn call(&mut self, _: Request<()>) -> Self::Future {
        Box::pin(create(self.0.clone()))
    }
}

impl NamedService for Orders {
    const NAME: &'static str = "shop.Orders";
}

impl Service<http::Request<Body>> for Orders {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let orders = self.clone();
        Box::pin(async {
            let mut method = tonic::server::Grpc::new(Codec::default());
            Ok(method.unary(orders, request).await)
        })
    }
}

/// Starts a server, which serves until the runtime ends. Returns its address.
async fn serve(pool: LockPool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let server = Server::builder().add_service(Orders(pool));
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    address
}

/// Sends a `Create` request and returns the client's result.
async fn send(address: SocketAddr) -> Result<(), Status> {
    let uri = format!("http://{address}").parse().expect("an address");
    let channel = Channel::builder(uri).connect().await;
    let mut client = tonic::client::Grpc::new(channel.expect("it is served"));
    client.ready().await.expect("it is connected");
    let path = http::uri::PathAndQuery::from_static("/shop.Orders/Create");
    let answer = client.unary(Request::new(()), path, Codec::default());
    answer.await.map(Response::into_inner)
}

/// Returns the delay before a retry that the status suggests.
fn pause(status: &Status) -> Option<Duration> {
    status.get_details_retry_info()?.retry_delay
}

/// Fails if the status of a refused call lacks the delay before a retry, or contains the key of the
/// lock.
#[tokio::test]
async fn a_grpc_client_gets_the_time_of_its_next_try() {
    for (hint, reported) in [(None, UNKNOWN), (Some(HINT), HINT)] {
        let mut pool = LockPool::builder().url("memory://");
        if let Some(hint) = hint {
            pool = pool.fairness(Fairness::default().retry_hint(hint));
        }
        let pool = pool.connect().await.expect("it is in memory");
        let address = serve(pool.clone()).await;
        send(address).await.expect("free");

        let request = pool.lock("order:42").ttl(TTL).watchdog();
        let held = request.acquire().await.expect("free");
        let refused = send(address).await.expect_err("it is held");
        assert_eq!(refused.code(), Code::Aborted);
        assert!(!refused.message().contains("order:42"), "{refused}");
        assert_eq!(pause(&refused), Some(reported));
        held.release().await.expect("held");

        pool.shutdown(TTL).await;
        let refused = send(address).await.expect_err("it was shut down");
        assert_eq!(refused.code(), Code::Unavailable);
        assert_eq!(pause(&refused), Some(UNKNOWN));
    }
}
