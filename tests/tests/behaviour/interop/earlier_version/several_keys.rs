//! Tests of calls for several keys, which get all of them or none.

use leasehold_tests::earlier_version::random_hex;
use leasehold_tests::wait;

use super::sides::{As, LONG, Stage, TTL, want};

/// Fails if a call of one version takes some of its keys while the other version holds another of
/// them.
#[test]
fn several_keys_are_taken_together_across_versions() {
    let stage = Stage::new();
    let (pool, mut earlier) = (stage.present(), stage.earlier());
    let tokens = [random_hex(), random_hex()];
    let both = [
        ("lock:a", tokens[0].as_str()),
        ("lock:b", tokens[1].as_str()),
    ];
    let ours = stage.runtime.block_on(pool.lock("b").ttl(TTL).acquire());
    let ours = ours.expect("it is free");
    assert_eq!(earlier.ask_all(&both, TTL), Err(1));
    assert_eq!(stage.probe.get("lock:a"), None);
    let fence = ours.fence().expect("it has one").get();
    stage.runtime.block_on(ours.release()).expect("still held");
    let mut fences = Vec::new();
    wait::until("both are free", LONG, || {
        fences = earlier.ask_all(&both, TTL).unwrap_or_default();
        !fences.is_empty()
    });
    assert!(
        fences.iter().all(|of| *of > fence),
        "{fences:?} after {fence}"
    );

    let all = || pool.lock_all(["a", "b", "c"]).ttl(TTL);
    let refused = stage.runtime.block_on(all().acquire());
    assert!(refused.expect_err("it has two").is_contention());
    assert_eq!(stage.probe.get("lock:c"), None);
    let next = stage.runtime.spawn(all().wait(LONG).acquire());
    for (key, (_, token)) in ["a", "b"].into_iter().zip(both) {
        stage.await_queued(key, 1);
        assert!(earlier.release(&want(key, As::Alone), token, None));
    }
    let next = stage.runtime.block_on(next).expect("no panic");
    drop(next.expect("all are free now"));
}
