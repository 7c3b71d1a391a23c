//! Tests of servers that send no messages: an old server, and a server that does not permit
//! messages. Processes get a lock later, but still in the order of the queue.

use std::time::{Duration, Instant};

use leasehold_tests::server::{Server, ServerOptions};
use redis::cmd;

use super::{Line, connect, connect_with, take};

/// Permissions for exclusive locks without messages.
const USER: &str = "ACL SETUSER app on >secret ~lock:* -@all +eval +evalsha +script|load +get +mget +exists +set +del +pexpire +pttl +time \
                    +ping +info +hello";

fn restricted(more: &str) -> (Server, String) {
    let server = Server::start();
    let mut words = USER.split_whitespace().chain(more.split_whitespace());
    let mut user = cmd(words.next().expect("a command"));
    for word in words {
        user.arg(word);
    }
    server.probe().run::<()>(&user);
    let url = format!("redis://app:secret@127.0.0.1:{}/", server.port());
    (server, url)
}

/// Fails unless processes get the lock in the order in which they came. Also fails if a process
/// with many calls keeps out a process that comes later. Without messages, the server cannot notify
/// the process with many calls that the other one waits.
async fn serves(url: &str) {
    let held = take(&connect(url).await, "order").await;
    let mut line = Line::new("order");
    for name in ["a", "b", "c"] {
        line.join(&connect(url).await, name).await;
    }
    let released = Instant::now();
    held.release().await.expect("still held");
    println!("{url}");
    line.served_as(released, &["a", "b", "c"]).await;

    let many = connect_with(url, |fairness| fairness.max_passes(3)).await;
    let other = connect(url).await;
    let held = take(&connect(url).await, "turns").await;
    let mut line = Line::new("turns");
    line.stay = Duration::from_millis(50);
    line.join_all(&many, "many", 30).await;
    let released = Instant::now();
    held.release().await.expect("still held");
    while line.served.lock().expect("no panic").is_empty() {
        tokio::task::yield_now().await;
    }
    line.join(&other, "other").await;
    let inside = line.served.lock().expect("no panic").len();
    let (served, missed) = line.served_since(released).await;
    let first = served.iter().position(|who| *who == "other");
    let first = first.expect("it is served");
    assert!(
        missed || first <= inside + 4,
        "{first} with {inside} before it, {url}"
    );
}

#[tokio::test]
async fn processes_without_hello_are_served_in_order() {
    let server = ServerOptions::new()
        .option("rename-command", &["HELLO", "OLDHELLO"])
        .start();
    serves(&server.url()).await;
}

#[tokio::test]
async fn processes_without_publish_are_served_in_order() {
    let (_server, url) = restricted("+subscribe &lock:*");
    serves(&url).await;
}

#[tokio::test]
async fn processes_without_subscribe_are_served_in_order() {
    let (_server, url) = restricted("+publish &lock:*");
    serves(&url).await;
}

#[tokio::test]
async fn processes_without_channels_are_served_in_order() {
    let (_server, url) = restricted("+publish +subscribe resetchannels");
    serves(&url).await;
}

/// A control for the tests above: with the permissions to publish and to subscribe, processes also
/// get the lock in order.
#[tokio::test]
async fn the_smallest_permissions_suffice_for_turns() {
    let (_server, url) = restricted("+publish +subscribe &lock:*");
    serves(&url).await;
}
