use std::thread;

use leasehold_services::shop::orders_client::OrdersClient;
use leasehold_services::shop::{NewOrder, Order};
use leasehold_tests::wait;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

use super::harness::double_submission::wait_until_42_is_free;
use super::harness::service::Service;
use super::harness::{LIMIT, Surroundings};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tonic_orders");

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

async fn client(service: &Service) -> OrdersClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", service.address()));
    let channel = endpoint.expect("a URL").connect().await;
    OrdersClient::new(channel.expect("it listens"))
}

fn new_order() -> NewOrder {
    NewOrder {
        id: "42".to_owned(),
    }
}

/// Calls the service over a new connection.
fn create(service: &Service) -> Result<Order, Status> {
    block_on(async {
        let mut client = client(service).await;
        let answer = wait::within("an answer", LIMIT, client.create(new_order()));
        answer.await.map(Response::into_inner)
    })
}

#[test]
fn a_second_call_is_aborted_while_the_first_is_processed() {
    let shop = Surroundings::start();
    let service = shop.serve(PROGRAM);
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| create(&service));
        let charge = shop.provider.asked_for("42");
        let second = create(&service);
        charge.pay();
        (first.join().expect("no panic"), second)
    });
    assert_eq!(first.expect("it came first").id, "42");
    let status = second.expect_err("the first was processed");
    assert_eq!(status.code(), Code::Aborted);
    let message = "the same operation is already being processed";
    assert_eq!(status.message(), message, "neither key nor advice");
    assert!(shop.provider.next().is_none(), "a second charge");
}

#[test]
fn calls_without_redis_are_unavailable() {
    let mut shop = Surroundings::start();
    let service = shop.serve(PROGRAM);
    shop.redis.kill();
    let status = create(&service).expect_err("no lock, no order");
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(status.message(), "the lock service is not available");
    assert!(shop.provider.next().is_none(), "a charge without a lock");
}

/// tonic drops the handler of a call that the client has cancelled. The option `detach` would keep
/// the handler running.
#[test]
fn a_cancelled_call_leaves_no_lock() {
    let shop = Surroundings::start();
    let service = shop.serve(PROGRAM);
    let (cancel, cancelled) = oneshot::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(|| {
            block_on(async {
                let mut client = client(&service).await;
                tokio::select! {
                    answer = client.create(new_order()) => panic!("not paid: {answer:?}"),
                    _ = cancelled => {}
                }
            });
        });
        let charge = shop.provider.asked_for("42");
        cancel.send(()).expect("the client waits");
        charge.wait_until_dropped();
    });
    wait_until_42_is_free(&shop);
}

#[test]
fn the_service_ends_on_request() {
    let shop = Surroundings::start();
    let service = shop.serve(PROGRAM);
    service.ask_to_stop();
    let ended = service.wait();
    assert!(ended.status.success(), "{ended:?}");
}
