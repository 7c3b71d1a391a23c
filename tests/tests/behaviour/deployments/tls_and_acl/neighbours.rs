//! Tests that users of the same server without rights to a pool's keys can neither release nor
//! forge a lock.

use leasehold::LockGuard;
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::server::Server;
use redis::{Cmd, cmd};

use super::{TTL, connect, user};
use crate::deployments::all_are_renewed;

/// Permissions that a careful operator gives to every service.
const USUAL: [&str; 4] = ["+@all", "-@dangerous", "-@admin", "-@scripting"];

/// Takes an exclusive lock, a shared lock and a permit, each with a watchdog.
async fn held(server: &Server) -> Vec<LockGuard> {
    let pool = connect(&server.url()).await;
    let request = |key| {
        let request = pool.lock(key).ttl(TTL);
        request.watchdog_every(std::time::Duration::from_millis(200))
    };
    let mut guards = Vec::new();
    for request in [request("k"), request("s").shared(), request("p").permits(2)] {
        guards.push(request.acquire().await.expect("free"));
    }
    guards
}

fn words(text: &str) -> Cmd {
    let mut words = text.split(' ');
    let mut command = cmd(words.next().expect("a command"));
    command.arg(words.collect::<Vec<_>>());
    command
}

/// True if the server refuses the command because the client's user lacks a permission for it.
fn refused(client: &RedisProbe, command: &Cmd) -> bool {
    let answer = client.try_run::<redis::Value>(command);
    answer
        .is_err_and(|error| error.code() == Some("NOPERM") || error.to_string().contains("NOPERM"))
}

/// Fails if a user with rights to other keys and channels can change anything about a lock, or read
/// its token.
#[tokio::test]
async fn a_user_of_other_keys_cannot_affect_a_lock() {
    let server = Server::start();
    let guards = held(&server).await;
    let rules = [&["~other:*", "&other:*"][..], &USUAL].concat();
    let client = RedisProbe::connect(&user(&server, "next", &rules));
    client.run::<()>(&words("SET other:x 1"));
    let (shares, fence) = ("lock:%leasehold:shares:lock:s", "lock:%leasehold:fence");
    let queue = "lock:%leasehold:queue:lock:k";
    for command in [
        "GET lock:k".to_owned(),
        "SET lock:k 1".to_owned(),
        "DEL lock:k".to_owned(),
        "UNLINK lock:k".to_owned(),
        "PEXPIRE lock:k 1".to_owned(),
        "GETEX lock:k PX 1".to_owned(),
        "RENAME lock:k other:k".to_owned(),
        "RENAME other:x lock:k".to_owned(),
        "COPY other:x lock:k REPLACE".to_owned(),
        "BITOP AND lock:k other:x".to_owned(),
        "MGET other:x lock:k".to_owned(),
        format!("ZADD {shares} 1 x"),
        format!("ZRANGE {shares} 0 -1"),
        format!("DEL {shares}"),
        format!("SET {fence} 1"),
        format!("SET {queue} 1"),
        "PUBLISH lock:%leasehold:turn:x r".to_owned(),
        "SUBSCRIBE lock:%leasehold:turn:x".to_owned(),
        "PSUBSCRIBE lock:*".to_owned(),
        "EVAL return 0".to_owned(),
    ] {
        assert!(refused(&client, &words(&command)), "{command}");
    }
    all_are_renewed(&guards).await;
}

/// Fails if a user with read access to the keys can use their contents to end or take a lock.
#[tokio::test]
async fn a_user_with_read_access_cannot_affect_a_lock() {
    let server = Server::start();
    let guards = held(&server).await;
    let rules = [&["%R~lock:*"][..], &USUAL, &["+evalsha"]].concat();
    let client = RedisProbe::connect(&user(&server, "reader", &rules));
    let value: String = client.run(&words("GET lock:k"));
    assert_eq!(value.split(':').next().map(str::len), Some(32), "a token");
    for command in ["SET lock:k 1", "DEL lock:k", "PEXPIRE lock:k 1"] {
        assert!(refused(&client, &words(command)), "{command}");
    }
    let mut call = cmd("EVALSHA");
    // The script need not exist, because the server checks the rights before it looks for the
    // script.
    call.arg("0".repeat(40))
        .arg(1)
        .arg("lock:k")
        .arg(&value[..32]);
    assert!(refused(&client, &call), "a script");
    all_are_renewed(&guards).await;
}

/// Fails if a message that another client publishes ends a lease, or lets a waiting call in while
/// the lock is held.
#[tokio::test]
async fn a_user_with_publish_access_cannot_affect_a_lock() {
    let server = Server::start();
    let guards = held(&server).await;
    let waiting = connect(&server.url()).await;
    let call = async move { waiting.lock("k").ttl(TTL).wait(TTL).acquire().await };
    let waiting = tokio::spawn(call);
    let client = RedisProbe::connect(&user(
        &server,
        "herald",
        &["allchannels", "+publish", "+pubsub"],
    ));
    let channels = || client.run::<Vec<String>>(&words("PUBSUB CHANNELS *"));
    let both = || channels().len() == 2;
    leasehold_tests::wait::until_async("both listen", TTL, both).await;
    for channel in channels() {
        for message in [
            "t",
            "w",
            "r",
            "",
            "tlock:k",
            "wlock:k",
            "r0000000000000000lock:k",
            "rffffffffffffffff",
        ] {
            for _ in 0..20 {
                client.run::<()>(cmd("PUBLISH").arg(&channel).arg(message));
            }
        }
    }
    all_are_renewed(&guards).await;
    assert!(!waiting.is_finished(), "it has a lock that is held");
    waiting.abort();
}
