//! Tests of the holders that `Kit::hold` creates, which represent other processes.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use leasehold::LockPool;
use leasehold::testing::Kit;
use tokio::time::{Instant, sleep};

use super::{is_contended, request, secs};

/// Fails if a call gets the lock while another holder has it. Also fails if the lock does not
/// become free after the holder's release or drop, or after the time of `releases_after`.
#[tokio::test(start_paused = true)]
async fn another_holder_excludes_calls_until_it_ends() {
    let kit = Kit::new();
    let other = kit.hold("order:42").await;
    assert!(is_contended(&request(&kit).acquire().await));
    other.release().await;
    let guard = request(&kit).acquire().await.expect("it was released");
    guard.release().await.expect("it lasts");

    let other = kit.hold("order:42").await;
    assert!(is_contended(&request(&kit).acquire().await));
    drop(other);
    let guard = request(&kit).acquire().await.expect("it was dropped");
    guard.release().await.expect("it lasts");

    let begun = Instant::now();
    let other = kit.hold("order:42").releases_after(secs(2)).await;
    assert!(is_contended(&request(&kit).acquire().await));
    let guard = request(&kit).wait(secs(5)).acquire().await;
    let waited = begun.elapsed();
    assert!(secs(2) <= waited && waited < secs(3), "{waited:?}");
    guard
        .expect("it has released by itself")
        .release()
        .await
        .expect("it lasts");
    other.release().await; // nothing is left to do
    assert!(kit.history().is_exclusive(), "{}", kit.history());
    assert_eq!(kit.history().refusals(), 3, "{}", kit.history());
}

/// Fails if a holder does not renew its lock, so that the lock expires during a long test.
#[tokio::test(start_paused = true)]
async fn another_holder_renews_its_lock() {
    let kit = Kit::new();
    let _other = kit.hold("order:42").ttl(secs(1)).await;
    sleep(secs(60)).await;
    assert!(is_contended(&request(&kit).acquire().await));
}

/// Fails if the lock of a dead process is free at once, or never becomes free.
#[tokio::test(start_paused = true)]
async fn a_dead_holder_keeps_its_lock_for_its_ttl() {
    let kit = Kit::new();
    let other = kit.hold("order:42").ttl(secs(4)).await;
    sleep(secs(1)).await;
    let begun = Instant::now();
    other.expire();
    assert!(is_contended(&request(&kit).acquire().await));
    let guard = request(&kit)
        .wait(secs(30))
        .acquire()
        .await
        .expect("its ttl ends");
    let waited = begun.elapsed();
    assert!(secs(3) <= waited && waited <= secs(4), "{waited:?}");
    drop(guard);
    assert!(kit.history().is_exclusive(), "{}", kit.history());
}

/// Fails if readers exclude each other, or if a writer gets the lock while readers have it.
#[tokio::test(start_paused = true)]
async fn other_holders_can_share() {
    let kit = Kit::new();
    let (one, two) = (
        kit.hold("order:42").shared().await,
        kit.hold("order:42").shared().await,
    );
    let reader = request(&kit)
        .shared()
        .acquire()
        .await
        .expect("readers share");
    assert!(is_contended(&request(&kit).acquire().await));
    drop((one, two, reader));
    assert!(request(&kit).acquire().await.is_ok());
}

/// A lock has two permits. Fails if a third holder gets one, or if a second holder is refused.
#[tokio::test(start_paused = true)]
async fn other_holders_can_have_permits() {
    let kit = Kit::new();
    let _one = kit.hold("order:42").permits(2).await;
    let two = request(&kit)
        .permits(2)
        .acquire()
        .await
        .expect("the second");
    assert!(
        is_contended(&request(&kit).permits(2).acquire().await),
        "a third"
    );
    two.release().await.expect("it lasts");
    let _two = kit.hold("order:42").permits(2).await;
    assert!(
        is_contended(&request(&kit).permits(2).acquire().await),
        "a third"
    );
    assert!(kit.history().is_exclusive(), "{}", kit.history());
}

/// Fails if other holders and the kit's calls do not wait in the same queue.
#[tokio::test(start_paused = true)]
async fn other_holders_queue_with_calls() {
    let kit = Kit::new();
    let _first = kit.hold("order:42").releases_after(secs(1)).await;
    let second = kit.hold("order:42").wait(secs(20)).releases_after(secs(1));
    let second = tokio::spawn(second.into_future());
    sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    let guard = request(&kit)
        .wait(secs(20))
        .acquire()
        .await
        .expect("it is the third");
    assert!(secs(1) < begun.elapsed(), "{:?}", begun.elapsed());
    drop((guard, second.await.expect("no panic")));
    let history = kit.history();
    let order = history
        .iter()
        .filter(|event| event.kind.to_string().starts_with("granted"));
    let order: Vec<_> = order.map(|event| event.caller.to_string()).collect();
    assert_eq!(order, ["other 1", "other 2", "call 1"], "{history}");
    assert!(history.is_exclusive(), "{history}");
}

/// Fails if `Kit::hold` returns instead of panicking while the lock is held, or if the panic does
/// not describe the problem.
#[tokio::test(start_paused = true)]
async fn another_holder_needs_a_free_lock() {
    let kit = Kit::new();
    let _first = kit.hold("order:42").await;
    let second = AssertUnwindSafe(kit.hold("order:42").into_future());
    let panic = second.catch_unwind().await.expect_err("it is held");
    let text = panic.downcast_ref::<String>().expect("a text");
    for part in [
        "kit.hold(\"order:42\")",
        "holders.rs",
        "is held",
        "other 1  order:42  granted",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

/// Fails if the kit's pool ignores the settings that the test has passed to `Kit::with`.
#[tokio::test(start_paused = true)]
async fn the_kit_pool_has_the_given_configuration() {
    let builder = LockPool::builder().wait(secs(3)).namespace("shop");
    let kit = Kit::with(builder.url("redis://127.0.0.1:1/"));
    let _other = kit.hold("order:42").releases_after(secs(2)).await;
    let guard = request(&kit).acquire().await.expect("it waits by default");
    assert_eq!(guard.full_key(), "shop:order:42");
    assert_eq!(guard.key(), "order:42");
    assert!(kit.history().of("order:42").is_exclusive());
    assert_eq!(kit.history().of("order:42").len(), kit.history().len());
}

/// Fails if `inspect` does not show the locks of a kit.
#[tokio::test(start_paused = true)]
async fn the_locks_of_a_kit_can_be_inspected() {
    let kit = Kit::new();
    let other = kit.hold("order:42").await;
    let info = kit.pool().inspect("order:42").await.expect("in memory");
    assert_eq!(info.fence, other.fence());
    assert_eq!(info.holders.len(), 1);
    other.release().await;
    let info = kit.pool().inspect("order:42").await.expect("in memory");
    assert!(info.holders.is_empty());
}

/// Fails if two kits share locks, or if clones of one kit do not share locks.
#[tokio::test(start_paused = true)]
async fn only_clones_of_a_kit_share_locks() {
    let (one, two) = (Kit::new(), Kit::default());
    let clone = one.clone();
    let _held = one.hold("order:42").await;
    let _also = two.hold("order:42").await;
    assert!(is_contended(&request(&clone).acquire().await));
    assert_eq!(clone.history().len(), 2);
    assert_eq!(two.history().len(), 1);
}

/// Fails if a kit works only in paused time, or only on a runtime of one thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kit_works_in_real_time_on_several_threads() {
    let kit = Kit::new();
    let other = kit
        .hold("order:42")
        .releases_after(Duration::from_millis(30))
        .await;
    let calls = (0..8).map(|_| tokio::spawn(request(&kit).wait(secs(20)).run(async {})));
    for call in calls.collect::<Vec<_>>() {
        call.await
            .expect("no panic")
            .expect("it waits for the rest");
    }
    drop(other);
    let history = kit.history();
    assert!(history.is_exclusive(), "{history}");
    assert_eq!(history.grants(), 9, "{history}");
}

/// A kit is used outside of a runtime. Fails if its panic does not suggest a remedy.
#[test]
fn a_kit_needs_a_runtime() {
    let kit = Kit::new();
    let panic = std::panic::catch_unwind(AssertUnwindSafe(|| kit.pool())).expect_err("no runtime");
    let text = panic.downcast_ref::<&str>().expect("a text");
    assert!(
        text.contains("#[tokio::test(start_paused = true)]"),
        "{text}"
    );
}

/// Test fixtures create a kit before the runtime of the test starts. Fails if a kit cannot be
/// created outside of a runtime and used in a later one.
#[test]
fn a_kit_begins_with_its_first_use() {
    let kit = Kit::new();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let lost = runtime.block_on(async {
        let guard = request(&kit).acquire().await.expect("it is free");
        sleep(secs(10)).await;
        guard.check()
    });
    assert!(lost.is_err_and(|error| error.is_lost()));
}
