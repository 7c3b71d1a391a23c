//! Tests of locks of other clients, and of data that is not a lock.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{LockError, LockPool, LockState};
use leasehold_tests::server::Server;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;
use redis::cmd;

use super::{LONG, TTL, seen};

async fn pool(server: &Server) -> LockPool {
    pool_of(&server.url()).await
}

async fn pool_of(url: &str) -> LockPool {
    let pool = LockPool::builder().url(url).io_timeout(NO_OUTAGE);
    wait::connected(pool).await
}

/// Fails if another client's lock cannot be inspected, or if its value is shown as an owner.
#[tokio::test]
async fn a_lock_of_another_client_is_shown_without_an_owner() {
    let server = Server::start();
    let (pool, probe) = (pool(&server).await, server.probe());
    let hex = "0123456789abcdef".repeat(2);
    for value in [
        "shell-17",
        "",
        &hex,
        &format!("{hex}:web-1 17 other"),
        "web-1 4711 shop::create_order",
    ] {
        assert!(probe.set_nx("lock:theirs", value, TTL));
        let lock = pool.inspect("theirs").await.expect("it answers");
        assert_eq!(lock.state, LockState::Exclusive, "{value}");
        let [holder] = &lock.holders[..] else {
            panic!("{lock:?}");
        };
        assert!(holder.foreign, "{value}");
        assert_eq!(
            (&holder.owner, holder.since, holder.fence),
            (&None, None, None)
        );
        let left = holder.expires_in.expect("it expires");
        assert!(TTL / 2 < left && left <= TTL, "{left:?}");
        assert!(!format!("{lock:?}").contains("4711"), "{lock:?}");
        let error = pool.lock("theirs").ttl(TTL).acquire().await;
        assert_eq!(error.expect_err("it is held").holder(), None);
        assert!(probe.delete("lock:theirs"));
    }
}

/// Fails if a lock without an expiry is not listed, or cannot be taken away. Operators look for
/// such locks.
#[tokio::test]
async fn a_lock_without_an_end_is_shown_and_can_be_taken_away() {
    let server = Server::start();
    let (pool, probe) = (pool(&server).await, server.probe());
    probe.run::<()>(cmd("SET").arg("lock:stuck").arg("someone"));
    let mut locks = pool.locks("*");
    let lock = locks
        .next()
        .await
        .expect("it is listed")
        .expect("it answers");
    assert_eq!((&*lock.key, lock.holders[0].expires_in), ("stuck", None));
    assert!(locks.next().await.is_none());
    let waiting = tokio::spawn(pool.lock("stuck").ttl(TTL).wait(LONG).acquire());
    seen(&pool, "stuck", |lock| lock.waiting.len() == 1).await;
    let was = pool.force_release("stuck").await.expect("it answers");
    assert!(was.expect("it was there").holders[0].foreign);
    let guard = waiting.await.expect("no panic").expect("it is free");
    guard.release().await.expect("held");
}

/// The value of another client's lock begins like a value of leasehold. Fails if this lock stays
/// held although the pool reported that it was taken away.
#[tokio::test]
async fn a_foreign_lock_with_a_similar_value_is_taken_away() {
    let server = Server::start();
    let (pool, probe) = (pool(&server).await, server.probe());
    let hex = "0123456789abcdef".repeat(2);
    for value in [
        "r",
        "rails-web-7",
        &format!("r{hex}"),
        &format!("r{hex}:claim"),
        &format!("{hex}:claims"),
    ] {
        assert!(probe.set_nx("lock:theirs", value, TTL));
        let was = pool.force_release("theirs").await.expect("it answers");
        assert!(was.expect("it was there").holders[0].foreign, "{value}");
        assert!(!probe.delete("lock:theirs"), "{value} stays");
    }
    // An entry of another client among the shared holders must also be taken away.
    let guard = pool.lock("s").ttl(TTL).shared().acquire().await;
    drop(guard.expect("free").release().await);
    let shared = format!("{}:0", "f".repeat(32));
    assert!(probe.set_nx("lock:s", &shared, TTL));
    let mut member = cmd("ZADD");
    member.arg(SHARES).arg("1e15").arg("rails-web-7");
    probe.run::<()>(&member);
    pool.force_release("s").await.expect("it answers");
    assert!(!probe.delete("lock:s"), "the share stays");
}

const SHARES: &str = "lock:%leasehold:shares:lock:s";

/// Fails if odd data among the shared holders of one lock hides other locks, or if that lock cannot
/// be taken away.
#[tokio::test]
async fn odd_shares_hide_no_other_lock() {
    let server = Server::start();
    let (pool, probe) = (pool(&server).await, server.probe());
    let guard = pool.lock("k").ttl(TTL).acquire().await.expect("free");
    let mut not_a_set = cmd("SET");
    not_a_set.arg(SHARES).arg("text");
    let member = |score: &str, member: &[u8]| {
        let mut command = cmd("ZADD");
        command.arg(SHARES).arg(score).arg(member);
        command
    };
    let token = "0123456789abcdef".repeat(2);
    for odd in [
        not_a_set,
        member("inf", token.as_bytes()),
        member("1e300", token.as_bytes()),
        member("1e15", b"\xff\xfe"),
        member("1e15", b"%9"),
    ] {
        let shared = format!("{}:0", "f".repeat(32));
        assert!(probe.set_nx("lock:s", &shared, TTL));
        probe.run::<()>(&odd);
        let (mut locks, mut keys) = (pool.locks("*"), Vec::new());
        while let Some(lock) = locks.next().await {
            keys.push(lock.expect("it answers").key);
        }
        keys.sort_unstable();
        assert_eq!(keys, ["k", "s"], "{odd:?}");
        let lock = pool.inspect("s").await.expect("it answers");
        assert_eq!(lock.state, LockState::Shared);
        pool.force_release("s").await.expect("it answers");
        assert!(!pool.inspect("s").await.expect("it answers").is_taken());
    }
    guard.release().await.expect("held");
}

/// Fails if readable locks are not listed because of a key that the user may not read.
#[tokio::test]
async fn a_key_without_permission_hides_no_other_lock() {
    let server = Server::start();
    let mut user = cmd("ACL");
    user.arg("SETUSER").arg("some").arg("on").arg(">some");
    user.arg(&["+@all", "&*", "~lock:ours*", "~lock:%leasehold:*"]);
    server.probe().run::<()>(&user);
    let url = format!("redis://some:some@127.0.0.1:{}/", server.port());
    let (pool, probe) = (pool_of(&url).await, server.probe());
    let guard = pool.lock("ours").ttl(TTL).acquire().await.expect("free");
    assert!(probe.set_nx("lock:theirs", "someone", TTL));
    let (mut locks, mut found) = (pool.locks("*"), Vec::new());
    while let Some(lock) = locks.next().await {
        let lock = lock.expect("it answers");
        found.push((lock.holders[0].foreign, lock.key));
    }
    found.sort_unstable();
    assert_eq!(
        found,
        [(false, "ours".to_owned()), (true, "theirs".to_owned())]
    );
    for error in [
        pool.inspect("theirs")
            .await
            .map(drop)
            .expect_err("no permission"),
        pool.force_release("theirs")
            .await
            .map(drop)
            .expect_err("no permission"),
    ] {
        assert!(error.to_string().contains("NOPERM"), "{error}");
    }
    guard.release().await.expect("held");
}

/// Fails if a key with another type than string is not listed as a foreign lock, or ends the list
/// early.
#[tokio::test]
async fn other_data_is_a_foreign_lock() {
    let server = Server::start();
    let (pool, probe) = (pool(&server).await, server.probe());
    probe.run::<()>(cmd("HSET").arg(&["lock:hash", "a", "b"]));
    let lock = pool.inspect("hash").await.expect("it answers");
    assert!(lock.holders[0].foreign, "{lock:?}");
    let taken = pool.lock("hash").ttl(TTL).acquire().await;
    assert!(taken.is_err(), "no lock can be taken there");
    let guard = pool.lock("k").ttl(TTL).acquire().await.expect("free");
    let (mut locks, mut keys) = (pool.locks("*"), Vec::new());
    while let Some(lock) = locks.next().await {
        keys.push(lock.expect("it answers").key);
    }
    keys.sort_unstable();
    assert_eq!(keys, ["hash", "k"]);
    guard.release().await.expect("held");
}

/// Fails if an inspection hangs, or reports a lock as free without an answer.
#[tokio::test]
async fn an_unavailable_store_is_reported() {
    let mut server = Server::start();
    let pool = pool(&server).await;
    assert!(!pool.inspect("k").await.expect("it answers").is_taken());
    server.kill();
    for error in [
        pool.inspect("k").await.expect_err("away"),
        pool.force_release("k").await.expect_err("away"),
        pool.locks("*")
            .next()
            .await
            .expect("reported")
            .expect_err("away"),
    ] {
        assert!(error.is_unavailable(), "{error}");
    }
    server.restart();
    let guard = pool.lock("k").ttl(TTL).wait(LONG).acquire().await;
    let guard = guard.expect("it is back");
    let lock = pool.inspect("k").await.expect("it is back");
    assert_eq!(lock.fence, guard.fence());
}

/// Fails if simultaneous inspections of a hanging server fail one after the other, each after a
/// separate time limit.
#[tokio::test]
async fn a_hanging_store_is_reported_to_all_callers_at_once() {
    let server = Server::start();
    let short = Duration::from_millis(300);
    let builder = LockPool::builder().url(server.url()).io_timeout(short);
    let pool = wait::connected(builder).await;
    let answers = async {
        while !pool.inspect("k").await.is_ok_and(|lock| !lock.is_taken()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    wait::within("it answers", LONG, Box::pin(answers)).await;
    server.pause();
    let looks = (0..50).map(|_| {
        let pool = pool.clone();
        tokio::spawn(async move { pool.inspect("k").await })
    });
    // One after the other, the looks would take 50 times the `io_timeout`: 15 s.
    let looks = wait::within("all looks", LONG / 3, join_all(looks)).await;
    for look in looks {
        let error = look.expect("no panic").expect_err("it hangs");
        assert!(error.is_unavailable(), "{error}");
    }
    server.resume();
}

/// Fails if an inspection needs more permissions than locks need, or if a missing permission is not
/// reported.
#[tokio::test]
async fn the_smallest_set_of_permissions_suffices_to_inspect() {
    let server = Server::start();
    let (_, rule) = leasehold::__test::permissions();
    for (name, extra) in [("all", ""), ("no-scan", "-scan")] {
        let mut user = cmd("ACL");
        user.arg("SETUSER")
            .arg(name)
            .arg("on")
            .arg(format!(">{name}"));
        for word in rule
            .split(' ')
            .chain(extra.split(' '))
            .filter(|word| !word.is_empty())
        {
            user.arg(word);
        }
        server.probe().run::<()>(&user);
    }
    for (name, lists) in [("all", true), ("no-scan", false)] {
        let url = format!("redis://{name}:{name}@127.0.0.1:{}/", server.port());
        let pool = pool_of(&url).await;
        let guard = pool.lock("k").ttl(TTL).shared().acquire().await;
        let guard = guard.expect("free");
        let lock = pool.inspect("k").await.expect("it may look");
        assert!(lock.holders[0].owner.is_some(), "{lock:?}");
        match pool.locks("*").next().await.expect("an answer") {
            Ok(lock) => assert!(lists, "{lock:?}"),
            Err(error) => {
                assert!(!lists, "{error}");
                assert!(error.to_string().contains("+scan"), "{error}");
            }
        }
        let was = pool.force_release("k").await.expect("it may");
        assert!(was.is_some());
        drop(guard);
        let free = async {
            while pool.inspect("k").await.expect("it may look").is_taken() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        wait::within("it comes free", LONG, Box::pin(free)).await;
    }
}

/// Fails if the information about a lock, or an error about it, contains the lock's token.
#[tokio::test]
async fn no_token_is_shown() {
    let server = Server::start();
    let (pool, probe) = (pool(&server).await, server.probe());
    let guard = pool.lock("k").ttl(TTL).acquire().await.expect("free");
    let share = pool.lock("s").ttl(TTL).shared().acquire().await;
    let share = share.expect("free");
    let tokens = [
        probe.value("lock:k").expect("held").token,
        probe
            .run::<Vec<String>>(
                cmd("ZRANGE")
                    .arg("lock:%leasehold:shares:lock:s")
                    .arg(&[0, 1]),
            )
            .remove(0),
    ];
    let mut reported = vec![
        format!("{:?}", pool.inspect("k").await.expect("it answers")),
        format!("{:?}", pool.inspect("s").await.expect("it answers")),
        pool.lock("k")
            .ttl(TTL)
            .acquire()
            .await
            .expect_err("held")
            .to_string(),
    ];
    let refused: LockError = pool.lock("s").ttl(TTL).acquire().await.expect_err("shared");
    reported.push(format!("{refused} {refused:?}"));
    reported.push(format!(
        "{:?}",
        pool.force_release("k").await.expect("it answers")
    ));
    for token in tokens {
        for text in &reported {
            assert!(
                !text.contains(&token[..16]) && !text.contains(&token[16..]),
                "{text}"
            );
        }
    }
    drop((guard, share));
}
