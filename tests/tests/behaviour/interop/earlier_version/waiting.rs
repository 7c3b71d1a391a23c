//! Tests of the queue. A lock passes from one version to the other, and both versions understand
//! the messages of the queue.

use std::thread;
use std::time::{Duration, Instant};

use leasehold_tests::earlier_version::{Answer, EarlierProcess, Message, Want, random_hex};
use leasehold_tests::wait;

use super::sides::{As, LONG, Side, Stage, TTL, in_four_directions, want};

/// Time for which a free lock stays reserved for the next process.
const CLAIM: Duration = Duration::from_secs(1);

/// Fails if a release of one version leaves a process of the other version waiting, or if fences do
/// not grow.
#[test]
fn a_release_serves_the_next_process_of_either_version() {
    in_four_directions(|stage, first, second| {
        let mut last = 0;
        for _ in 0..5 {
            last = hand_over(stage, first, second, last);
        }
    });
}

/// Makes `holder` take the lock, and `waiter` wait for the lock and get it. Returns the fence of
/// `waiter`.
fn hand_over(stage: &Stage, holder: &mut Side, waiter: &mut Side, last: u64) -> u64 {
    let held = holder.take("k", As::Alone, LONG).expect("it is free");
    let before = held.fence();
    assert!(before > last, "{before} after {last}");
    let next = thread::scope(|scope| {
        let next = scope.spawn(|| waiter.take("k", As::Alone, LONG));
        stage.await_queued("k", 1);
        holder.release(held, None);
        next.join().expect("no panic")
    });
    let next = next.expect("its turn comes");
    let fence = next.fence();
    assert!(fence > before, "{fence} after {before}");
    assert!(holder.take("k", As::Alone, Duration::ZERO).is_none());
    waiter.release(next, None);
    stage.await_queued("k", 0);
    fence
}

/// This version reserves a free key for a waiting process of the earlier version. Fails if that
/// process does not recognise the reservation as its own, or cannot read the message about it.
#[test]
fn this_version_hands_over_to_the_earlier_version() {
    let stage = Stage::new();
    let (pool, mut earlier) = (stage.present(), stage.earlier());
    let want = want("k", As::Alone);
    let ours = stage.runtime.block_on(pool.lock("k").ttl(TTL).acquire());
    let ours = ours.expect("it is free");
    let (token, fence) = (random_hex(), ours.fence().expect("it has one").get());
    let answer = earlier.ask(&want, &token, true);
    assert!(
        matches!(answer, Answer::Held { queued: true, .. }),
        "{answer:?}"
    );
    let released = Instant::now();
    stage.runtime.block_on(ours.release()).expect("still held");
    let claim = format!("{}:claim", earlier.name());
    let handed = stage.probe.get("lock:k");
    let is_over = CLAIM * 9 / 10 < released.elapsed();
    assert!(handed.as_ref() == Some(&claim) || is_over, "{handed:?}");
    assert_eq!(receive(&mut earlier), Message::Turn(want.key.clone()));
    match earlier.ask(&want, &token, true) {
        Answer::Granted { fence: next, .. } => assert!(next > fence, "{next} after {fence}"),
        other => panic!("not taken: {other:?}"),
    }
    assert!(earlier.renew(&want, &token));
    assert!(earlier.release(&want, &token, None));
}

/// A process of this version waits for a lock that a process of the earlier version holds. Fails if
/// the holder is not notified, or if its release does not reserve the lock for the waiting process.
#[test]
fn the_earlier_version_hands_over_to_this_version() {
    let stage = Stage::new();
    let (pool, mut earlier) = (stage.present(), stage.earlier());
    let want = want("k", As::Alone);
    let lease = earlier.try_take(&want).expect("it is free");
    let next = stage
        .runtime
        .spawn(pool.lock("k").ttl(TTL).wait(LONG).acquire());
    assert_eq!(receive(&mut earlier), Message::Wanted(want.key.clone()));
    stage.await_queued("k", 1);
    let token = random_hex();
    let (found, answer) = earlier.turn(&want, &lease.token, &token);
    assert!(found);
    // The earlier process has released the lock and requested it again. This request is refused,
    // because the lock is now reserved for the waiting process, for the duration of `CLAIM`.
    let handed = Answer::Held {
        left: Some(Duration::from_secs(1)),
        queued: true,
    };
    assert_eq!(answer, handed);
    let next = stage
        .runtime
        .block_on(next)
        .expect("no panic")
        .expect("its turn");
    assert!(next.fence().expect("it has one").get() > lease.fence);
    stage.runtime.block_on(next.release()).expect("still held");
    assert_eq!(receive(&mut earlier), Message::Turn(want.key.clone()));
    assert!(matches!(
        earlier.ask(&want, &token, true),
        Answer::Granted { .. }
    ));
}

/// Fails if calls of this version pass a lock from one to the next forever while an earlier process
/// waits.
#[test]
fn busy_calls_let_a_process_of_the_earlier_version_in() {
    let stage = Stage::new();
    let (pool, mut earlier) = (stage.present(), stage.earlier());
    let calls: Vec<_> = (0..4)
        .map(|_| {
            let pool = pool.clone();
            stage.runtime.spawn(async move {
                loop {
                    let guard = pool.lock("k").ttl(TTL).wait(LONG).acquire().await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    guard
                        .expect("its turn comes")
                        .release()
                        .await
                        .expect("still held");
                }
            })
        })
        .collect();
    let (want, mut last) = (want("k", As::Alone), 0);
    for _ in 0..20 {
        let lease = earlier.take(&want, LONG).expect("its turn comes");
        assert!(lease.fence > last, "{} after {last}", lease.fence);
        last = lease.fence;
        assert!(earlier.release(&want, &lease.token, None), "its own");
    }
    for call in calls {
        assert!(!call.is_finished(), "a call failed");
        call.abort();
    }
}

/// Fails if a process that has left the queue keeps the other version from the lock.
#[test]
fn an_abandoned_place_blocks_no_process() {
    let stage = Stage::new();
    let (pool, mut earlier, mut last) = (stage.present(), stage.earlier(), stage.earlier());
    let want = want("k", As::Alone);
    let held = last.try_take(&want).expect("it is free");
    let ours = stage
        .runtime
        .spawn(pool.lock("k").ttl(TTL).wait(LONG).acquire());
    stage.await_queued("k", 1);
    let token = random_hex();
    assert!(matches!(
        earlier.ask(&want, &token, true),
        Answer::Held { .. }
    ));
    stage.await_queued("k", 2);
    ours.abort();
    stage.await_queued("k", 1);
    // The earlier process repeats its request and so keeps its place in the queue, like a process
    // that continues to wait.
    assert!(matches!(
        earlier.ask(&want, &token, true),
        Answer::Held { .. }
    ));
    assert!(last.release(&want, &held.token, None));
    assert_eq!(receive(&mut earlier), Message::Turn(want.key.clone()));
    // The lock is now reserved for the earlier process, which does not take it.
    let next = stage
        .runtime
        .spawn(pool.lock("k").ttl(TTL).wait(LONG).acquire());
    // The reservation ends after a second, so the call may have the lock already.
    wait::until("it queues, or has it", LONG, || {
        stage.are_queued("k", 1) || next.is_finished()
    });
    earlier.leave(&want.key);
    let next = stage
        .runtime
        .block_on(wait::within("it is served", LONG, next));
    let next = next.expect("no panic").expect("its turn comes");
    stage.runtime.block_on(next.release()).expect("still held");
}

/// Fails if this version gets a lock that the earlier version has renewed, or if the earlier
/// version renews a lock of this version.
#[test]
fn renewals_exclude_waiting_processes_of_the_other_version() {
    const SHORT: Duration = Duration::from_secs(6);
    let stage = Stage::new();
    let (pool, mut earlier) = (stage.present(), stage.earlier());
    let want = Want::alone("lock:k", SHORT);
    let lease = earlier.try_take(&want).expect("it is free");
    let next = stage
        .runtime
        .spawn(pool.lock("k").ttl(TTL).wait(LONG).acquire());
    stage.await_queued("k", 1);
    for _ in 0..8 {
        thread::sleep(SHORT / 6);
        assert!(earlier.renew(&want, &lease.token), "still its own");
    }
    assert!(!next.is_finished(), "it got in");
    assert!(earlier.release(&want, &lease.token, None));
    let next = stage
        .runtime
        .block_on(next)
        .expect("no panic")
        .expect("its turn");
    assert!(!earlier.renew(&want, &lease.token), "it is ours");
    assert!(!earlier.release(&want, &lease.token, None), "it is ours");
    stage.runtime.block_on(next.release()).expect("still held");
}

fn receive(process: &mut EarlierProcess) -> Message {
    process.receive(LONG).expect("it is notified")
}
