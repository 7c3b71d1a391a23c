//! Checks that servers, the proxy and signals behave as the other tests expect.

use std::time::{Duration, Instant};

use leasehold_tests::proxy::{After, Mode, Proxy};
use leasehold_tests::server::{Server, ServerOptions};
use leasehold_tests::wait;
use redis::{Connection, RedisResult, cmd};

/// Read time-out of a client. A test that expects no answer waits for the whole time-out, so the
/// time-out is short.
const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(5);

fn client(url: &str) -> Connection {
    let client = redis::Client::open(url).expect("a URL");
    let connection = client.get_connection_with_timeout(LONG).expect("connects");
    connection.set_read_timeout(Some(SHORT)).expect("an option");
    connection
}

fn ping(connection: &mut Connection) -> RedisResult<String> {
    cmd("PING").query(connection)
}

fn set(connection: &mut Connection, key: &str) -> RedisResult<String> {
    cmd("SET").arg(key).arg("v").query(connection)
}

#[test]
fn a_killed_server_keeps_data_only_if_configured() {
    let mut plain = Server::start();
    let mut durable = ServerOptions::new().append_only().start();
    for server in [&mut plain, &mut durable] {
        assert!(server.probe().set_nx("k", "v", LONG));
        let url = server.url();
        server.kill();
        assert!(
            redis::Client::open(url)
                .expect("a URL")
                .get_connection()
                .is_err()
        );
        server.restart();
    }
    assert_eq!(plain.probe().get("k"), None);
    assert_eq!(durable.probe().get("k").as_deref(), Some("v"));
}

#[test]
fn a_server_can_have_a_password_few_databases_and_a_socket() {
    let server = ServerOptions::new().password("pw").databases(2).start();
    let open = format!("redis://127.0.0.1:{}/", server.port());
    let mut connection = redis::Client::open(open)
        .expect("a URL")
        .get_connection()
        .expect("connects");
    let refused = ping(&mut connection).expect_err("no password was given");
    assert_eq!(refused.code(), Some("NOAUTH"));
    assert!(server.probe().try_run::<()>(cmd("SELECT").arg(2)).is_err());
    assert!(server.socket_url().starts_with("redis+unix:///"));
}

#[test]
fn a_paused_server_answers_after_it_resumes() {
    let server = Server::start();
    let mut connection = client(&server.url());
    server.pause();
    assert!(ping(&mut connection).is_err());
    server.resume();
    assert_eq!(
        ping(&mut client(&server.url())).expect("it goes on"),
        "PONG"
    );
}

#[test]
fn the_proxy_forwards_and_counts() {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let mut connection = client(&proxy.url());
    let before = proxy.counts();
    for _ in 0..10 {
        ping(&mut connection).expect("it passes");
    }
    let after = proxy.counts();
    assert_eq!(after.commands - before.commands, 10);
    assert_eq!(after.replies - before.replies, 10);
    assert_eq!(after.connections, 1);
}

#[test]
fn the_proxy_delays() {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let mut connection = client(&proxy.url());
    for (mode, expected) in [
        (
            Mode::Delay {
                least: Duration::from_millis(30),
                jitter: Duration::ZERO,
            },
            60,
        ),
        (Mode::DelayReplies(Duration::from_millis(50)), 50),
    ] {
        proxy.set(mode);
        let started = Instant::now();
        ping(&mut connection).expect("late, but it comes");
        assert!(
            started.elapsed() >= Duration::from_millis(expected),
            "{mode:?}"
        );
    }
}

#[test]
fn a_black_hole_makes_the_connection_unusable() {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    for (mode, executed) in [
        (Mode::BlackHole, false),
        (Mode::SwallowRequests, false),
        (Mode::SwallowReplies, true),
    ] {
        let key = format!("{mode:?}");
        let mut connection = client(&proxy.url());
        proxy.set(mode);
        assert!(
            set(&mut connection, &key)
                .expect_err("no answer")
                .is_timeout()
        );
        proxy.pass();
        assert!(
            ping(&mut connection).is_err(),
            "{mode:?} spoils the connection"
        );
        ping(&mut client(&proxy.url())).expect("a new one works");
        assert_eq!(server.probe().get(&key).is_some(), executed, "{mode:?}");
    }
}

#[test]
fn the_proxy_can_garble_replies() {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let mut connection = client(&proxy.url());
    proxy.set(Mode::Garble);
    let error = set(&mut connection, "garbled").expect_err("no protocol");
    assert!(!error.is_timeout(), "{error}");
    assert!(server.probe().get("garbled").is_some(), "it was executed");
}

#[test]
fn a_healed_partition_delivers_delayed_commands() {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let mut connection = client(&proxy.url());
    proxy.set(Mode::Stall);
    assert!(set(&mut connection, "late").is_err());
    // The client closes its connection, but the proxy already has the command and forwards it
    // later.
    drop(connection);
    assert_eq!(server.probe().get("late"), None);
    proxy.pass();
    wait::until("the command arrives late", LONG, || {
        server.probe().get("late").is_some()
    });
}

#[test]
fn a_command_arrives_after_its_connection_has_ended() {
    const LATE: Duration = Duration::from_millis(300);
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let mut connection = client(&proxy.url());
    proxy.set(Mode::Stall);
    assert!(set(&mut connection, "late").is_err());
    let ended = Instant::now();
    proxy.hang_up(LATE);
    proxy.pass();
    assert!(!ping(&mut connection).expect_err("hung up").is_timeout());
    ping(&mut client(&proxy.url())).expect("a new one works");
    let probe = server.probe();
    wait::until("the command arrives late", LONG, || {
        probe.get("late").is_some()
    });
    assert!(ended.elapsed() >= LATE, "{:?}", ended.elapsed());
}

#[test]
fn a_reply_is_lost_after_execution() {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    for (after, timeout) in [(After::Cut, false), (After::Silence, true)] {
        let key = format!("lost-{after:?}");
        let mut connection = client(&proxy.url());
        proxy.lose_replies(&key, 1, after);
        ping(&mut connection).expect("another command passes");
        let wrong: RedisResult<()> = cmd("INCR").arg(&key).arg("too many").query(&mut connection);
        assert!(
            wrong.expect_err("refused").code().is_some(),
            "an error passes"
        );
        let error = set(&mut connection, &key).expect_err("the reply is lost");
        assert_eq!(error.is_timeout(), timeout, "{after:?}");
        assert!(server.probe().get(&key).is_some(), "it was executed");
        set(&mut client(&proxy.url()), &key).expect("once only");
    }
    assert_eq!(proxy.counts().lost, 2);
}

#[test]
fn connections_can_be_cut_half_open_or_refused() {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let mut connection = client(&proxy.url());
    proxy.cut();
    assert!(!ping(&mut connection).expect_err("cut").is_timeout());

    let mut connection = client(&proxy.url());
    proxy.half_open();
    assert!(ping(&mut connection).expect_err("silent").is_timeout());

    let mut present = client(&proxy.url());
    proxy.set(Mode::Refuse);
    ping(&mut present).expect("present ones pass");
    let refused = redis::Client::open(proxy.url()).expect("a URL");
    assert!(refused.get_connection_with_timeout(LONG).is_err());
}

/// Requirement 13 needs another `--deployment`, and requirement 99 does not exist. Fails if a run
/// of the harness that requests one of them passes.
#[test]
#[cfg(feature = "harness")]
fn a_requirement_that_cannot_run_here_is_reported() {
    for asked in [&["--requirement", "13"][..], &["--requirement", "99"]] {
        let chaos = std::process::Command::new(env!("CARGO_BIN_EXE_chaos"))
            .args(asked)
            .output()
            .expect("it starts");
        assert_eq!(chaos.status.code(), Some(1), "{asked:?}");
        let printed = String::from_utf8_lossy(&chaos.stderr);
        assert!(
            printed.contains(asked[1]) && printed.contains("--deployment"),
            "{printed}"
        );
    }
}
