//! Tests of a double submission over HTTP, and of an unavailable Redis. The answers must be the
//! same with every web framework.

use std::thread;

use super::http::{self, Answer};
use super::service::Service;
use super::{LIMIT, Surroundings};

pub(crate) const CONFLICT: &str = r#"{"type":"about:blank","title":"the same operation is already being processed","status":409}"#;
pub(crate) const UNAVAILABLE: &str =
    r#"{"type":"about:blank","title":"the lock service is not available","status":503}"#;

/// Checks that a second click during the first one is refused, and causes no charge.
pub(crate) fn one_click_makes_the_order(shop: &Surroundings, service: &Service) {
    let click = || http::post(service.address(), "/orders/42", "");
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(click);
        let charge = shop.provider.asked_for("42");
        let second = click(); // the handler of the first click is inside its lock now
        charge.pay();
        (first.join().expect("no panic"), second)
    });
    assert_eq!(first.status, 201, "{first:?}");
    assert_eq!(first.body, "order 42 is made\n");
    assert_eq!(second.status, 409, "{second:?}");
    assert_problem(&second, CONFLICT);
    let seconds = header(&second, "retry-after").expect("a hint when to come back");
    let seconds: u64 = seconds.parse().expect("whole seconds");
    assert!((1..=10).contains(&seconds), "{second:?}");
    assert!(shop.provider.next().is_none(), "a second charge");
}

/// Checks that without Redis nothing is charged, and the answer is 503.
pub(crate) fn without_redis_no_order_is_made(shop: &mut Surroundings, service: &Service) {
    shop.redis.kill();
    let answer = http::post(service.address(), "/orders/43", "");
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_problem(&answer, UNAVAILABLE);
    assert!(shop.provider.next().is_none(), "a charge without a lock");
}

/// Waits until the lock of order 42 is gone, although the provider never answers the charge.
pub(crate) fn wait_until_42_is_free(shop: &Surroundings) {
    let probe = shop.redis.probe();
    leasehold_tests::wait::until("order 42 is free", LIMIT, || {
        probe.get("lock:order:42").is_none()
    });
}

/// Checks that the body is equal to `body`. Checks that the head contains neither the key, nor the
/// address of Redis, nor the advice to set `wait`.
#[track_caller]
fn assert_problem(answer: &Answer, body: &str) {
    assert_eq!(answer.body, body);
    let kind = header(answer, "content-type");
    assert_eq!(kind, Some("application/problem+json"));
    for inside in ["order:", "wait", "127.0.0.1"] {
        assert!(!answer.head.contains(inside), "{answer:?}");
    }
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let mut lines = answer.head.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
