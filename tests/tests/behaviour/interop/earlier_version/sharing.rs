//! Tests of readers and writers, and of permits.

use std::thread;
use std::time::Duration;

use leasehold_tests::earlier_version::Answer;

use super::sides::{As, Held, LONG, Side, Stage, TTL, in_four_directions, want};

const NOW: Duration = Duration::ZERO;

/// Fails if readers of the two versions exclude each other. Also fails if a writer of one version
/// gets the lock while a reader of the other version has it.
#[test]
fn readers_of_both_versions_share_and_exclude_writers() {
    in_four_directions(|stage, one, other| {
        let first = one.take("k", As::Reader, LONG).expect("it is free");
        let second = other.take("k", As::Reader, NOW).expect("beside a reader");
        assert!(one.take("k", As::Alone, NOW).is_none());
        assert!(other.take("k", As::Alone, NOW).is_none());
        one.release(first, None);
        assert!(one.take("k", As::Alone, NOW).is_none());
        let writer = writes_after(stage, one, || other.release(second, None));
        assert!(other.take("k", As::Reader, NOW).is_none());
        one.release(writer, None);
        stage.await_queued("k", 0);
    });
}

/// Makes a writer wait in the queue, and then calls `give_back`, which releases the last share.
/// Returns the writer's lock.
fn writes_after(stage: &Stage, side: &mut Side, give_back: impl FnOnce()) -> Held {
    thread::scope(|scope| {
        let writer = scope.spawn(|| side.take("k", As::Alone, LONG));
        stage.await_queued("k", 1);
        give_back();
        let writer = writer.join().expect("no panic");
        writer.expect("its turn comes")
    })
}

/// Fails if a reader of one version overtakes a waiting writer of the other version.
#[test]
fn a_reader_does_not_overtake_a_waiting_writer() {
    in_four_directions(|stage, readers, other| {
        let first = readers.take("k", As::Reader, LONG).expect("it is free");
        let before = first.fence();
        thread::scope(|scope| {
            let writer = scope.spawn(|| other.take("k", As::Alone, LONG));
            stage.await_queued("k", 1);
            assert!(readers.take("k", As::Reader, NOW).is_none());
            readers.release(first, None);
            let writer = writer.join().expect("no panic").expect("its turn");
            assert!(writer.fence() > before, "{} after {before}", writer.fence());
        });
    });
}

/// Fails if each version counts only the permits of its own processes.
#[test]
fn permits_are_counted_across_both_versions() {
    in_four_directions(|stage, one, other| {
        let places = As::OneOf(2);
        let first = one.take("k", places, LONG).expect("it is free");
        let second = other.take("k", places, NOW).expect("there are two");
        assert!(one.take("k", places, NOW).is_none());
        assert!(other.take("k", places, NOW).is_none());
        thread::scope(|scope| {
            let third = scope.spawn(|| other.take("k", places, LONG));
            stage.await_queued("k", 1);
            one.release(first, None);
            third.join().expect("no panic").expect("a place is free");
        });
        assert!(one.take("k", As::Alone, NOW).is_none());
        drop(second);
    });
}

/// Fails if readers of the other version do not get the lock after a writer's downgrade.
#[test]
fn a_writer_lets_readers_of_the_other_version_in() {
    let stage = Stage::new();
    let (pool, mut earlier) = (stage.present(), stage.earlier());
    let (alone, reader) = (want("k", As::Alone), want("k", As::Reader));
    let lease = earlier.try_take(&alone).expect("it is free");
    assert!(earlier.stay(&alone.key, &lease.token, TTL));
    let share = pool.lock("k").ttl(TTL).shared().acquire();
    let share = stage.runtime.block_on(share).expect("beside a reader");
    assert!(earlier.release(&reader, &lease.token, None));
    stage.runtime.block_on(share.release()).expect("still held");

    let ours = stage.runtime.block_on(pool.lock("k").ttl(TTL).acquire());
    let mut ours = ours.expect("it is free");
    assert!(earlier.try_take(&reader).is_none());
    stage
        .runtime
        .block_on(ours.downgrade())
        .expect("still held");
    let lease = earlier.try_take(&reader).expect("beside a reader");
    assert!(earlier.renew(&reader, &lease.token));
    assert!(earlier.release(&reader, &lease.token, None));
    stage.runtime.block_on(ours.release()).expect("still held");
}

/// Fails if the earlier version does not read the number of permits that this version has set.
#[test]
fn the_other_version_reads_the_number_of_permits() {
    let stage = Stage::new();
    let (pool, mut earlier) = (stage.present(), stage.earlier());
    let ours = pool.lock("k").ttl(TTL).permits(3).acquire();
    let ours = stage.runtime.block_on(ours).expect("it is free");
    let two = want("k", As::OneOf(2));
    let token = leasehold_tests::earlier_version::random_hex();
    assert_eq!(earlier.ask(&two, &token, false), Answer::Limited(3));
    stage.runtime.block_on(ours.release()).expect("still held");
}
