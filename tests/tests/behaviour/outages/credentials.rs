//! Tests of changing credentials: renewed logins, password files, and refused logins.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ::redis::cmd;
use leasehold::{Credentials, LockError, LockPool, LockPoolBuilder};
use leasehold_tests::cluster::Setup;
use leasehold_tests::etcd::Etcd;
use leasehold_tests::postgres::{Postgres, WITH_PASSWORD};
use leasehold_tests::quorum::Quorum;
use leasehold_tests::rerun::fails_with;
use leasehold_tests::scratch::Scratch;
use leasehold_tests::sentinel::Setup as Sentinels;
use leasehold_tests::server::Server;
use leasehold_tests::session_server::SessionServer as _;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;
use leasehold_tests::zookeeper::Settings;

use super::{LONG, TTL, comes_back, tries, waits};

pub(super) const USER: &str = "app";

/// Time for which the pool may use a password before it must get new credentials.
const VALID: Duration = Duration::from_secs(2);

/// A short I/O timeout, after which calls to a stopped server fail.
const SHORT: Duration = Duration::from_secs(1);

/// The current password of a user, which the credentials function of a pool returns, and the number
/// of calls of this function.
#[derive(Clone, Default)]
pub(super) struct Vault {
    password: Arc<Mutex<String>>,
    calls: Arc<AtomicUsize>,
}

impl Vault {
    pub(super) fn set(&self, password: &str) {
        password.clone_into(&mut self.password.lock().expect("no panic"));
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Configures a pool that logs in as `user` with the password of this vault.
    pub(super) fn builder(&self, url: &str, user: &'static str) -> LockPoolBuilder {
        let vault = self.clone();
        LockPool::builder()
            .url(url)
            .io_timeout(NO_OUTAGE)
            .credentials(move || {
                vault.calls.fetch_add(1, Ordering::SeqCst);
                let password = vault.password.lock().expect("no panic").clone();
                async move {
                    tokio::task::yield_now().await;
                    Ok(Credentials::new(user, password).valid_for(VALID))
                }
            })
    }

    /// Waits until the pool has requested credentials `more` times after this call.
    pub(super) async fn is_asked(&self, more: usize) {
        let before = self.calls();
        let asked = || before + more <= self.calls();
        wait::until_async("new credentials are asked for", LONG, asked).await;
    }
}

/// Changes the password twice, and then blocks the credentials function for longer than a ttl.
/// Fails if a lease is lost. Also fails if the pool does not get the new password before `cut`, or
/// does not log in with it after `cut`. `set` changes the password on the server. `cut` ends all
/// connections, or makes their logins invalid, so that the pool must log in again.
async fn rotated(url: &str, user: &'static str, set: impl AsyncFn(&str), cut: impl AsyncFn()) {
    let vault = Vault::default();
    vault.set("hunter0");
    set("hunter0").await;
    let pool = wait::connected(vault.builder(url, user)).await;
    assert!(!format!("{pool:?}").contains("hunter"), "{pool:?}");
    let held = pool.lock("held").ttl(TTL).watchdog().acquire().await;
    let held = held.expect("free");
    for number in 1..=2 {
        let password = format!("hunter{number}");
        set(&password).await;
        vault.set(&password);
        // The pool gets the new password although no connection has ended yet.
        vault.is_asked(2).await;
        tries(&pool, "other").await.expect("the pool is logged in");
        cut().await;
        waits(&pool, "other").await;
        held.check().expect("no lease is lost");
    }
    tokio::task::block_in_place(|| {
        // The credentials function needs this mutex to read the password. So it blocks while the
        // test holds the mutex.
        let blocks = vault.password.lock().expect("no panic");
        let before = vault.calls();
        wait::until("the function is called", LONG, || before < vault.calls());
        std::thread::sleep(TTL * 6 / 5);
        drop(blocks);
    });
    held.release().await.expect("no lease is lost");
}

pub(super) fn set_user(password: &str) -> ::redis::Cmd {
    let password = format!(">{password}");
    let rules = [
        "SETUSER",
        USER,
        "on",
        "resetpass",
        &password,
        "~*",
        "&*",
        "+@all",
    ];
    cmd("ACL").arg(&rules).to_owned()
}

pub(super) fn kill_clients() -> ::redis::Cmd {
    cmd("CLIENT").arg(&["KILL", "USER", USER]).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_rotates() {
    let server = Server::start();
    let set = async |password: &str| server.probe().run::<()>(&set_user(password));
    let cut = async || server.probe().run::<()>(&kill_clients());
    rotated(&server.url(), USER, set, cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_rotates() {
    let master = Server::start();
    let sentinels = Sentinels::new().start_naming_port(master.port());
    let set = async |password: &str| master.probe().run::<()>(&set_user(password));
    let cut = async || master.probe().run::<()>(&kill_clients());
    rotated(&sentinels.url(), USER, set, cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_rotates() {
    let cluster = Setup::new().start();
    let set = async |password: &str| cluster.run_everywhere(&set_user(password));
    let cut = async || cluster.run_everywhere(&kill_clients());
    rotated(&cluster.url(), USER, set, cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redlock_rotates() {
    let quorum = Quorum::old(3);
    let everywhere = |command: &::redis::Cmd| {
        for probe in quorum.probes() {
            probe.run::<()>(command);
        }
    };
    let set = async |password: &str| everywhere(&set_user(password));
    let cut = async || everywhere(&kill_clients());
    let url = quorum.url_with("node_timeout=1s");
    rotated(&url, USER, set, cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_rotates() {
    let server = Postgres::start();
    let database = server.migrated();
    let owner = database.client().await;
    let role = format!("CREATE ROLE {WITH_PASSWORD} LOGIN SUPERUSER");
    owner.batch_execute(&role).await.expect("an owner may");
    let set = async |password: &str| {
        let alter = format!("ALTER ROLE {WITH_PASSWORD} PASSWORD '{password}'");
        owner.batch_execute(&alter).await.expect("an owner may");
    };
    let cut = async || {
        let end = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{WITH_PASSWORD}'"
        );
        owner.batch_execute(&end).await.expect("an owner may");
    };
    let url = database.url_of("nobody");
    rotated(&url, WITH_PASSWORD, set, cut).await;
}

/// Fails if the separate connection for messages (`listen=`) is not replaced although its password
/// expires. Also fails if a waiting call does not get its lock after the replacement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_renews_the_connection_for_turns() {
    let server = Postgres::start();
    let database = server.migrated();
    let owner = database.client().await;
    let role = format!("CREATE ROLE {WITH_PASSWORD} LOGIN SUPERUSER PASSWORD 'hunter0'");
    owner.batch_execute(&role).await.expect("an owner may");
    let vault = Vault::default();
    vault.set("hunter0");
    let url = database.url_of("nobody");
    let listen = url.replace(':', "%3A").replace('/', "%2F");
    let builder = vault.builder(&format!("{url}?listen={listen}"), WITH_PASSWORD);
    let pool = wait::connected(builder).await;
    let other = wait::connected(LockPool::builder().url(database.url())).await;
    let probe = database.probe("lock:");
    let listening = || {
        probe.value(&format!(
            "SELECT coalesce(max(pid), 0) FROM leasehold.beacons JOIN pg_stat_activity USING (pid) WHERE usename = '{WITH_PASSWORD}'"
        ))
    };
    wait::until_async("it listens", LONG, || listening() != "0").await;
    for number in 0..3 {
        let held = other.lock("turn").ttl(LONG).acquire().await.expect("free");
        let waiting = pool.lock("turn").ttl(TTL).wait(LONG).acquire();
        let waiting = wait::started(waiting).await;
        let before = listening();
        let replaced = || !["0", &before].contains(&&*listening());
        wait::until_async("it is replaced", LONG, replaced).await;
        held.release().await.expect("held");
        let guard = waiting.await.expect("its turn comes");
        guard
            .release()
            .await
            .unwrap_or_else(|error| panic!("{number}: {error}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_rotates() {
    let server = Etcd::with_signed_tokens();
    let gateway = server.gateway();
    gateway.add_user("root", "root", "root");
    gateway.add_role("locks", "shop/");
    gateway.add_user(USER, "hunter0", "locks");
    gateway.enable_users();
    let root = gateway.as_user("root", "root");
    let set = async |password: &str| root.set_password(USER, password);
    // After any change of the users, etcd refuses all earlier login tokens. This change sets the
    // password that `root` already has.
    let cut = async || root.set_password("root", "root");
    rotated(&server.url("shop"), USER, set, cut).await;
}

/// Fails if a session cannot remove its nodes after it has reconnected with another password. For
/// ZooKeeper, the same name with another password is another user.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zookeeper_keeps_its_locks() {
    // The ttl is longer than the start of a server takes, even on a busy machine.
    const KEPT: Duration = Duration::from_secs(100);
    let mut server = Settings::new().longest_session(KEPT * 2).start();
    let vault = Vault::default();
    vault.set("hunter0");
    let pool = wait::connected(vault.builder(&server.url("shop"), USER)).await;
    let request = |key: &str| pool.lock(key).ttl(KEPT).wait(LONG);
    let held = request("held").watchdog().acquire().await.expect("free");
    vault.set("hunter1");
    server.restart();
    // This lock has the same ttl, so it belongs to the same session.
    let other = request("held:not").acquire().await;
    let other = other.expect("the store comes back");
    other.release().await.expect("held");
    held.check().expect("the session goes on");
    let released = held.release().await;
    released.expect("the session may remove its node");
    waits(&pool, "held").await;
}

/// Fails if the pool opens a new connection instead of logging in again on the open connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_logs_in_again_on_the_open_connection() {
    let server = Server::start();
    let probe = server.probe();
    probe.run::<()>(&set_user("hunter0"));
    let vault = Vault::default();
    vault.set("hunter0");
    let pool = wait::connected(vault.builder(&server.url(), USER)).await;
    let connections = || {
        let list: String = probe.run(cmd("CLIENT").arg("LIST"));
        let own = list.lines().filter(|line| line.contains("name=leasehold:"));
        let ids = own.filter_map(|line| line.split(' ').next().map(str::to_owned));
        ids.collect::<Vec<_>>()
    };
    waits(&pool, "key").await;
    let before = connections();
    vault.is_asked(3).await;
    waits(&pool, "key").await;
    assert_eq!(before, connections());
}

/// Fails if a password file, named with the builder or in the URL, is not read before each
/// connection. Also fails if the file's line break counts as a part of the password, or if the
/// error does not name a missing or overlong file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_file_is_read_before_each_connection() {
    let server = Server::start();
    let probe = server.probe();
    probe.run::<()>(&set_user("hunter0"));
    let folder = Scratch::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.file("the password");
    std::fs::write(&file, "hunter0\r\n").expect("a file");
    let url = format!("redis://{USER}@127.0.0.1:{}/", server.port());
    let shown = file.display().to_string().replace(' ', "%20");
    let builders = [
        LockPool::builder().url(&url).password_file(&file),
        LockPool::builder().url(format!("{url}?password_file={shown}")),
    ];
    let mut pools = Vec::new();
    for builder in builders {
        pools.push(wait::connected(builder.io_timeout(NO_OUTAGE)).await);
    }
    probe.run::<()>(&set_user("hunter1"));
    std::fs::write(&file, "hunter1\n").expect("a file");
    probe.run::<()>(&kill_clients());
    for pool in &pools {
        waits(pool, "key").await;
    }
    let refused = async || {
        let builder = LockPool::builder().url(&url).password_file(&file);
        let error = builder.connect().await.expect_err("a wrong file");
        let text = error.to_string();
        assert!(text.contains("the password"), "{text}");
        text
    };
    std::fs::write(&file, "h".repeat(65_537)).expect("a file");
    let text = refused().await;
    assert!(text.contains("longer than 65,536 bytes"), "{text}");
    std::fs::remove_file(&file).expect("a file");
    refused().await;
}

/// Fails if the error of a refused login does not name the user, or shows a password. Also fails if
/// the refusal ends a waiting call, or if the pool tries to log in more than once a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_login_names_its_user() {
    let server = Server::start();
    let probe = server.probe();
    probe.run::<()>(&set_user("hunter0"));
    let vault = Vault::default();
    vault.set("hunter0");
    let pool = wait::connected(vault.builder(&server.url(), USER)).await;
    vault.set("hunter1");
    probe.run::<()>(&kill_clients());
    let began = Instant::now();
    loop {
        if let Err(error) = tries(&pool, "key").await {
            let text = format!("{error} {error:?}");
            assert!(!text.contains("hunter"), "{text}");
            if text.contains("the password of the user `app` was refused") {
                break;
            }
        }
        assert!(began.elapsed() < LONG, "it is not refused");
    }
    let waiting = pool.lock("waits").ttl(TTL).wait(LONG).acquire();
    let waiting = tokio::spawn(waiting);
    let (before, began) = (vault.calls(), Instant::now());
    wait::until_async("it tries again", LONG, || before + 3 <= vault.calls()).await;
    let took = began.elapsed();
    assert!(Duration::from_millis(1_500) < took, "3 logins in {took:?}");
    assert!(!waiting.is_finished(), "it waits");
    probe.run::<()>(&set_user("hunter1"));
    let guard = waiting.await.expect("no panic").expect("logged in");
    guard.release().await.expect("held");
    comes_back(&pool, "key").await;
}

/// Fails if the error of a refused login to PostgreSQL or etcd does not name the user.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_login_names_its_user() {
    let postgres = Postgres::start();
    let database = postgres.migrated();
    let owner = database.client().await;
    let role = format!("CREATE ROLE {WITH_PASSWORD} LOGIN PASSWORD 'hunter0'");
    owner.batch_execute(&role).await.expect("an owner may");
    let etcd = Etcd::with_signed_tokens();
    let gateway = etcd.gateway();
    gateway.add_user("root", "root", "root");
    gateway.add_role("locks", "shop/");
    gateway.add_user(WITH_PASSWORD, "hunter0", "locks");
    gateway.enable_users();
    let vault = Vault::default();
    vault.set("hunter1");
    for url in [database.url_of("nobody"), etcd.url("shop")] {
        let error = vault.builder(&url, WITH_PASSWORD).connect().await;
        let text = error.expect_err("the password is wrong").to_string();
        let expected = format!("the password of the user `{WITH_PASSWORD}` was refused");
        assert!(
            text.contains(&expected) && !text.contains("hunter"),
            "{text}"
        );
    }
}

/// Fails if an error or a panic of the program's credentials function is not reported. Also fails
/// if the pool then stops calling the function.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_fails_is_called_again() {
    let server = Server::start();
    let reported = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reported);
    let builder = LockPool::builder().url(server.url()).credentials(move || {
        let reported = count.load(Ordering::SeqCst);
        async move {
            match reported {
                0 => Err("the vault is sealed".into()),
                1 => panic!("the vault is on fire"),
                _ => Ok(Credentials::new("default", "")),
            }
        }
    });
    server
        .probe()
        .run::<()>(cmd("ACL").arg(&["SETUSER", "default", "nopass"]));
    let pool = builder.connect_lazy().expect("a valid URL");
    for expected in ["the vault is sealed", "panicked"] {
        let began = Instant::now();
        loop {
            let error = tries(&pool, "key").await.expect_err("not logged in");
            if error.to_string().contains(expected) {
                break;
            }
            assert!(began.elapsed() < LONG, "{error}");
        }
        reported.fetch_add(1, Ordering::SeqCst);
    }
    comes_back(&pool, "key").await;
}

/// Fails if the credentials function runs only on the program's runtime. No thread drives this
/// runtime during `acquire_blocking`, so the pool would never log in again.
#[test]
fn a_parked_runtime_costs_no_credentials() {
    let server = Server::start();
    let probe = server.probe();
    probe.run::<()>(&set_user("hunter0"));
    let vault = Vault::default();
    vault.set("hunter0");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    let pool = runtime.block_on(wait::connected(vault.builder(&server.url(), USER)));
    probe.run::<()>(&kill_clients());
    let guard = pool.lock("key").ttl(TTL).wait(LONG).acquire_blocking();
    let released = guard.expect("it logs in again").release_blocking();
    released.expect("held");
}

/// The server stops until a call fails, and then answers again on the open connection. Fails if the
/// pool does not use this connection. It cannot open another one, because its password has changed
/// on the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_answers_again_is_used() {
    let server = Server::start();
    let probe = server.probe();
    probe.run::<()>(&set_user("hunter0"));
    let vault = Vault::default();
    vault.set("hunter0");
    let builder = vault.builder(&server.url(), USER);
    let pool = wait::connected(builder.io_timeout(SHORT)).await;
    waits(&pool, "before").await;
    probe.run::<()>(&set_user("hunter1"));
    server.pause();
    tries(&pool, "paused")
        .await
        .expect_err("the server is stopped");
    server.resume();
    comes_back(&pool, "after").await;
    vault.is_asked(2).await;
    comes_back(&pool, "still").await;
    vault.is_asked(2).await;
    comes_back(&pool, "again").await;
}

#[tokio::test]
async fn memory_has_no_login() {
    let vault = Vault::default();
    let builders = [
        vault.builder("memory://", USER),
        LockPool::builder().url("memory://?password_file=/run/x"),
    ];
    for builder in builders {
        let error = builder.connect().await.expect_err("there is no login");
        assert!(matches!(error, LockError::Config { .. }), "{error:?}");
        assert!(error.to_string().contains("password_file"), "{error}");
    }
}

/// Fails if the tests of changed passwords do not detect a login that is not renewed.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn an_expired_login_is_found() {
    for test in [
        "outages::credentials::redis_rotates",
        "outages::credentials::postgres_rotates",
        "outages::credentials::postgres_renews_the_connection_for_turns",
        "outages::credentials::etcd_rotates",
    ] {
        fails_with("LoginNotRenewed", test);
    }
}

/// Fails if the tests of changed passwords do not detect a credentials function that runs on the
/// engine's thread, and so can block it.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_blocked_engine_is_found() {
    for test in [
        "outages::credentials::redis_rotates",
        "outages::credentials::postgres_rotates",
        "outages::credentials::etcd_rotates",
    ] {
        fails_with("CredentialsOnEngine", test);
    }
}
