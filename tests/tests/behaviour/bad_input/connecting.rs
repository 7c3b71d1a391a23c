//! Tests of pools that cannot connect to their store.

use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold::{LockError, LockPool};
use leasehold_tests::server::ServerOptions;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;
use redis::cmd;
use tokio::task::JoinSet;

use super::{Began, CANARY, expect, impostor};

/// A case: the mistake, the URL, the accepted error variants, and the fragments that the error text
/// must contain.
type Case = (
    &'static str,
    String,
    &'static [&'static str],
    &'static [&'static str],
);

/// I/O timeout of the cases. A server that does not answer in this time counts as unavailable.
const SILENT: Duration = Duration::from_secs(1);

async fn refuse_all(cases: Vec<Case>) {
    refuse_all_within(cases, SILENT).await;
}

/// Like `refuse_all`, but with another timeout, for servers that answer with an error. The timeout
/// must be long, because on a busy machine this answer may be late.
async fn refuse_all_within(cases: Vec<Case>, io_timeout: Duration) {
    let mut tasks = JoinSet::new();
    for (what, url, variants, expected) in cases {
        tasks.spawn(async move {
            let started = Began::now();
            let builder = LockPool::builder().url(&url).io_timeout(io_timeout);
            assert!(!format!("{builder:?} {builder:#?}").contains(CANARY));
            match builder.connect().await {
                Ok(pool) => panic!("{what}: connected: {pool:?}"),
                Err(error) => expect(what, &error, variants, expected, started),
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("as expected");
    }
}

const CONFIG: &[&str] = &["Config"];

#[tokio::test]
async fn urls_without_a_store_are_refused() {
    refuse_all(without_a_store()).await;
    refuse_all(with_a_wrong_part()).await;
}

fn with(start: &str, end: &str) -> String {
    format!("{start}{CANARY}{end}")
}

fn without_a_store() -> Vec<Case> {
    vec![
        ("empty", String::new(), CONFIG, &["redis://", "memory://"]),
        (
            "no scheme",
            with("user:", "@localhost:6379"),
            CONFIG,
            &["redis://"],
        ),
        (
            "unknown scheme",
            with("http://u:", "@host/"),
            CONFIG,
            &["`http`", "redis://"],
        ),
        (
            "misspelt scheme",
            with("rediss+unix://:", "@/x"),
            CONFIG,
            &["redis+unix://"],
        ),
        (
            "no host",
            with("redis://:", "@"),
            &["Config", "Unavailable/io"],
            &["redis://"],
        ),
    ]
}

fn with_a_wrong_part() -> Vec<Case> {
    vec![
        (
            "a port that is none",
            with("redis://:", "@host:port/"),
            CONFIG,
            &["redis://", "port"],
        ),
        (
            "a database that is none",
            with("redis://:", "@host/shop"),
            CONFIG,
            &["redis://", "db"],
        ),
        #[cfg(not(feature = "tls"))]
        (
            "TLS without the feature",
            with("rediss://:", "@host/"),
            CONFIG,
            &["feature `tls`"],
        ),
        #[cfg(not(feature = "tls"))]
        (
            "TLS to a cluster without the feature",
            with("rediss-cluster://:", "@h1,h2"),
            CONFIG,
            &["feature `tls`"],
        ),
        (
            "a database of a cluster",
            with("redis-cluster://:", "@h1,h2/1"),
            CONFIG,
            &["database 0"],
        ),
        (
            "an address of locks in memory",
            with("memory://u:", "@localhost:6379/0"),
            CONFIG,
            &["`memory://name`", "private"],
        ),
        (
            "options of locks in memory",
            with("memory://", "?replicas=1"),
            CONFIG,
            &["`memory://name`", "letters"],
        ),
    ]
}

#[tokio::test]
async fn a_missing_url_is_refused() {
    let started = Began::now();
    let error = LockPool::builder().connect().await.expect_err("no URL");
    expect("no URL", &error, CONFIG, &["URL", "redis://"], started);
}

#[tokio::test]
async fn unreachable_servers_are_reported() {
    let (_silent, silent) = impostor::is_silent();
    let (_gone, gone) = impostor::is_not_there();
    let closes = impostor::closes();
    let url = |port: u16| format!("redis://:{CANARY}@127.0.0.1:{port}/");
    let io = &["Unavailable/io"];
    let cases: Vec<Case> = vec![
        ("a closed port", url(gone), io, &["127.0.0.1", "is up"]),
        ("closes at once", url(closes), io, &["127.0.0.1"]),
        (
            "a socket that does not exist",
            "redis+unix:///no/such/socket".to_owned(),
            io,
            &["/no/such/socket"],
        ),
    ];
    refuse_all_within(cases, NO_OUTAGE).await;
    let cases: Vec<Case> = vec![
        (
            "never answers",
            url(silent),
            &["Unavailable/timeout"],
            &["127.0.0.1", "reachable"],
        ),
        (
            "a host that does not exist",
            format!("redis://:{CANARY}@no-such-host.invalid/"),
            &["Unavailable/io", "Unavailable/timeout"],
            &["no-such-host.invalid"],
        ),
    ];
    refuse_all(cases).await;
}

#[tokio::test]
async fn servers_other_than_redis_are_refused() {
    let url = |port: u16| format!("redis://127.0.0.1:{port}/");
    let cases = [
        ("speaks HTTP", &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..]),
        ("speaks noise", b"\x00\xff\x13\x37\r\n\x80\x81"),
        ("speaks half a message", b"$1000\r\nabc"),
        (
            "answers everything with a number",
            b":1\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
        ),
        (
            "answers everything with an error",
            b"-ERR no\r\n-ERR no\r\n-ERR no\r\n-ERR no\r\n-ERR no\r\n",
        ),
        ("nests without end", b"*1\r\n*1\r\n*1\r\n*1\r\n"),
        ("promises too much", b"$9223372036854775807\r\n"),
    ];
    let case = |(what, answer)| -> Case {
        let variants = &[
            "Unavailable/protocol",
            "Unavailable/timeout",
            "Unavailable/ERR",
        ];
        (
            what,
            url(impostor::answering(answer)),
            variants,
            &["127.0.0.1"],
        )
    };
    let cases = cases.into_iter().map(case).collect();
    refuse_all(cases).await;
}

/// While the pool connects, the server sends a reply without an end. Fails if the caller waits for
/// the end, or if the pool reads most of the reply. In an earlier version, a line of 200 MB made a
/// call with a `wait` of 4 s wait for 167 s.
#[tokio::test]
async fn endless_replies_at_connect_are_refused() {
    const MOST: usize = 200_000_000;
    let cases = [
        (
            "a line",
            &b"+"[..],
            b'x',
            "a line that does not end within 65536 bytes",
        ),
        ("an error", b"-ERR ", b'x', "begins with `-ERR xxx"),
        ("a number", b":", b'1', "does not end within 32 bytes"),
        (
            "a text",
            b"$100000000\r\n",
            b'x',
            "a text of 100000000 bytes",
        ),
        (
            "an array",
            b"*100000000\r\n",
            b'x',
            "100000000 values in one",
        ),
    ];
    for (what, begin, more, expected) in cases {
        let (port, sent) = impostor::floods(begin, more, MOST);
        let started = Began::now();
        let url = format!("redis://127.0.0.1:{port}/");
        let builder = LockPool::builder()
            .url(url)
            .io_timeout(Duration::from_secs(30));
        let error = builder.connect().await.expect_err(what);
        let variants = &["Unavailable/protocol"];
        expect(what, &error, variants, &[expected, "127.0.0.1"], started);
        // Some MB more than the pool has read may be counted as sent, because the operating system
        // buffers them.
        let sent = sent.load(Ordering::Relaxed);
        assert!(sent < MOST / 4, "{what}: {sent} bytes were taken");
    }
}

#[tokio::test]
async fn wrong_credentials_and_databases_are_refused() {
    refuses_credentials(&ServerOptions::new()).await;
}

/// The server has no command `HELLO`, so the pool uses RESP2. Fails if the pool then logs in
/// without the user, the password or the database.
#[tokio::test]
async fn resp2_connections_send_credentials_and_database() {
    let old = ServerOptions::new().option("rename-command", &["HELLO", "OLDHELLO"]);
    refuses_credentials(&old).await;
}

async fn refuses_credentials(options: &ServerOptions) {
    let guarded = options.clone().password("the right one").databases(2);
    let guarded = guarded.start();
    let open = options.clone().start();
    let user = [
        "ACL", "SETUSER", "limited", "on", ">limited", "~lock:*", "+get", "+mget",
    ];
    let mut acl = cmd(user[0]);
    for argument in &user[1..] {
        acl.arg(argument);
    }
    open.probe().run::<()>(&acl);
    let port = guarded.port();
    let open = open.port();
    let cases: Vec<Case> = vec![
        (
            "a wrong password",
            format!("redis://:{CANARY}@127.0.0.1:{port}/"),
            &["Unavailable/WRONGPASS"],
            &["password", "127.0.0.1"],
        ),
        (
            "a wrong user",
            format!("redis://nobody:{CANARY}@127.0.0.1:{port}/"),
            &["Unavailable/WRONGPASS"],
            &["user", "127.0.0.1"],
        ),
        (
            "no password",
            format!("redis://127.0.0.1:{port}/"),
            &["Unavailable/NOAUTH"],
            &["redis://user:password@host"],
        ),
        (
            "a user without permissions",
            format!("redis://limited:limited@127.0.0.1:{open}/"),
            &["Unavailable/NOPERM"],
            &["permission"],
        ),
        (
            "a database that is not there",
            format!("redis://:the%20right%20one@127.0.0.1:{port}/2"),
            &["Unavailable/ERR", "Config"],
            &["database"],
        ),
    ];
    refuse_all_within(cases, NO_OUTAGE).await;
}

/// Fails if the debug output of a pool, a request, a guard or an error contains the password. Also
/// fails if the output of a guard or an error contains the token of the lock.
#[tokio::test]
async fn debug_output_of_a_pool_hides_its_password() {
    let server = ServerOptions::new().password(CANARY).start();
    let pool = LockPool::builder().url(server.url()).io_timeout(NO_OUTAGE);
    let pool = wait::connected(pool).await;
    let ttl = Duration::from_secs(20);
    let request = pool.lock("k").ttl(ttl);
    let shown = format!("{pool:?} {pool:#?} {request:?}");
    assert!(!shown.contains(CANARY), "{shown}");
    let guard = request.acquire().await.expect("free");
    let value = server.probe().value("lock:k").expect("locked");
    let contended = pool.lock("k").ttl(ttl).acquire().await;
    let contended = contended.expect_err("held");
    let shown = format!("{guard:?} {contended:?} {contended}");
    assert!(!shown.contains(CANARY), "{shown}");
    assert!(
        !shown.contains(&value.token),
        "a token is a secret too: {shown}"
    );
}

#[tokio::test]
async fn options_out_of_range_are_refused() {
    let started = Began::now();
    for (what, builder, expected) in [
        (
            "namespace",
            LockPool::builder().namespace("n".repeat(500)),
            "namespace",
        ),
        (
            "timeout",
            LockPool::builder().io_timeout(Duration::ZERO),
            "io_timeout",
        ),
    ] {
        let ended = builder.url("memory://options").connect().await;
        let error: LockError = ended.expect_err(what);
        expect(what, &error, CONFIG, &[expected], started);
    }
}
