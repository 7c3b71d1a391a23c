use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use super::harness::Surroundings;
use super::harness::double_submission::{
    one_click_makes_the_order, without_redis_no_order_is_made,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_actix_orders");

#[test]
fn a_double_click_is_one_order() {
    let shop = Surroundings::start();
    let service = shop.serve(PROGRAM);
    one_click_makes_the_order(&shop, &service);
}

#[test]
fn orders_without_redis_are_503() {
    let mut shop = Surroundings::start();
    let service = shop.serve(PROGRAM);
    without_redis_no_order_is_made(&mut shop, &service);
}

#[test]
fn the_service_ends_on_request() {
    let shop = Surroundings::start();
    let service = shop.serve(PROGRAM);
    service.ask_to_stop();
    let ended = service.wait();
    assert!(ended.status.success(), "{ended:?}");
}

/// actix-web cannot distinguish a client that has closed its connection from a client that has only
/// finished sending. So the handler keeps running, with its lock.
#[test]
fn a_handler_outlives_the_end_of_its_client() {
    let shop = Surroundings::start();
    let service = shop.serve(PROGRAM);
    let mut client = TcpStream::connect(service.address()).expect("it listens");
    let request = b"POST /orders/42 HTTP/1.1\r\nhost: shop\r\ncontent-length: 0\r\n\r\n";
    client.write_all(request).expect("it reads");
    client.shutdown(Shutdown::Write).expect("it is connected");
    shop.provider.asked_for("42").pay();
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}
