#![allow(clippy::large_types_passed_by_value, reason = "the size is the case")]

use leasehold::{LockError, distributed_lock};

use super::support::tick;

/// A type so large that each copy of it noticeably increases the size of a future.
type Cart = [u64; 128];

#[distributed_lock(key = "cart:<id>", ttl = "1s")]
async fn locked_once(id: u64, cart: Cart) -> Result<u64, LockError> {
    tick().await;
    Ok(cart.iter().sum::<u64>() + id)
}

#[distributed_lock(key = "a:<id>", ttl = "1s")]
#[distributed_lock(key = "b:<id>", ttl = "1s")]
#[distributed_lock(key = "c:<id>", ttl = "1s")]
async fn locked_three_times(id: u64, cart: Cart) -> Result<u64, LockError> {
    tick().await;
    Ok(cart.iter().sum::<u64>() + id)
}

async fn body(id: u64, cart: Cart) -> Result<u64, LockError> {
    tick().await;
    Ok(cart.iter().sum::<u64>() + id)
}

/// A hand-written function with the same body, for comparison. The future of the body is pinned
/// inside the future of this function.
async fn by_hand(id: u64, cart: Cart) -> Result<u64, LockError> {
    let future = std::pin::pin!(async move {
        tick().await;
        Ok(cart.iter().sum::<u64>() + id)
    });
    tick().await;
    let result = future.await;
    tick().await;
    result
}

#[test]
fn the_body_is_stored_once() {
    let once = size_of_val(&locked_once(1, [0; 128]));
    let thrice = size_of_val(&locked_three_times(1, [0; 128]));
    let plain = size_of_val(&body(1, [0; 128]));
    let hand = size_of_val(&by_hand(1, [0; 128]));
    println!("body {plain}, by hand {hand}, locked {once}, three locks {thrice}");
    assert!(once <= hand + 640, "{once} bytes against {hand} by hand");
    // Each further lock may add one copy of the arguments, but no copy of the body.
    let layer = size_of::<Cart>() + 640;
    assert!(
        thrice <= once + 2 * layer,
        "{thrice} bytes for three locks, {once} for one"
    );
}
