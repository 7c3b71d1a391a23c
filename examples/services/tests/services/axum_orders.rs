use std::io::Write as _;
use std::net::TcpStream;

use super::harness::Surroundings;
use super::harness::double_submission::{
    one_click_makes_the_order, wait_until_42_is_free, without_redis_no_order_is_made,
};
use super::harness::http;

const PROGRAM: &str = env!("CARGO_BIN_EXE_axum_orders");

#[test]
fn a_double_click_is_one_order() {
    let shop = Surroundings::start();
    let service = shop.serve(PROGRAM);
    one_click_makes_the_order(&shop, &service);
}

#[test]
fn two_instances_share_locks() {
    let shop = Surroundings::start();
    let services = [shop.serve(PROGRAM), shop.serve(PROGRAM)];
    let click = |at: usize| http::post(services[at].address(), "/orders/42", "");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| click(0));
        let charge = shop.provider.asked_for("42");
        assert_eq!(click(1).status, 409);
        charge.pay();
        assert_eq!(first.join().expect("no panic").status, 201);
    });
}

#[test]
fn orders_without_redis_are_503() {
    let mut shop = Surroundings::start();
    let service = shop.serve(PROGRAM);
    without_redis_no_order_is_made(&mut shop, &service);
}

/// After a refused payment the lock is free, as after any error.
#[test]
fn an_order_can_be_repeated_after_an_error() {
    let shop = Surroundings::start();
    let service = shop.serve(PROGRAM);
    for (refused, status) in [(true, 502), (false, 201)] {
        let answer = std::thread::scope(|scope| {
            let click = scope.spawn(|| http::post(service.address(), "/orders/42", ""));
            let charge = shop.provider.asked_for("42");
            if refused {
                charge.refuse();
            } else {
                charge.pay();
            }
            click.join().expect("no panic")
        });
        assert_eq!(answer.status, status, "{answer:?}");
    }
}

/// axum drops the handler of a client that has disconnected. The option `detach` would keep the
/// handler running.
#[test]
fn a_disconnected_client_leaves_no_lock() {
    let shop = Surroundings::start();
    let service = shop.serve(PROGRAM);
    let mut client = TcpStream::connect(service.address()).expect("it listens");
    let request = b"POST /orders/42 HTTP/1.1\r\nhost: shop\r\ncontent-length: 0\r\n\r\n";
    client.write_all(request).expect("it reads");
    let charge = shop.provider.asked_for("42");
    drop(client);
    charge.wait_until_dropped();
    wait_until_42_is_free(&shop);
}
