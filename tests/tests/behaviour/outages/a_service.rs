//! Tests of a service under load. The service starts before its store, the password of its user
//! changes twice, and the store is down for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold::LockPool;
use leasehold_tests::etcd::{Etcd, Gateway};
use leasehold_tests::postgres::{Database, Postgres, WITH_PASSWORD};
use leasehold_tests::server::{Server, ServerOptions};
use leasehold_tests::session_server::SessionServer as _;
use leasehold_tests::wait;

use super::credentials::{USER, Vault, kill_clients, set_user};
use super::{LONG, TTL, comes_back, fail_at_once, tries, waits};

/// Number of tasks that lock a key again and again.
const TASKS: usize = 8;

/// A store with a user whose password changes. The store keeps its locks over a restart.
trait Stage {
    fn url(&self) -> String;
    fn user(&self) -> &'static str;
    fn kill(&mut self);
    fn restart(&mut self);
    /// Changes the user's password on the server.
    async fn set(&self, password: &str);
    /// Ends the user's connections, or makes their logins invalid.
    async fn cut(&self);
}

impl Stage for Server {
    fn url(&self) -> String {
        self.url()
    }

    fn user(&self) -> &'static str {
        USER
    }

    fn kill(&mut self) {
        self.kill();
    }

    fn restart(&mut self) {
        self.restart();
    }

    async fn set(&self, password: &str) {
        self.probe().run::<()>(&set_user(password));
    }

    async fn cut(&self) {
        self.probe().run::<()>(&kill_clients());
    }
}

impl Stage for (Postgres, Database) {
    fn url(&self) -> String {
        self.1.url_of("nobody")
    }

    fn user(&self) -> &'static str {
        WITH_PASSWORD
    }

    fn kill(&mut self) {
        self.0.kill();
    }

    fn restart(&mut self) {
        self.0.restart();
    }

    async fn set(&self, password: &str) {
        let alter = format!("ALTER ROLE {WITH_PASSWORD} PASSWORD '{password}'");
        let owner = self.1.client().await;
        owner.batch_execute(&alter).await.expect("an owner may");
    }

    async fn cut(&self) {
        let end = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{WITH_PASSWORD}'"
        );
        let owner = self.1.client().await;
        owner.batch_execute(&end).await.expect("an owner may");
    }
}

impl Stage for (Etcd, Gateway) {
    fn url(&self) -> String {
        self.0.url("shop")
    }

    fn user(&self) -> &'static str {
        USER
    }

    fn kill(&mut self) {
        self.0.kill();
    }

    fn restart(&mut self) {
        self.0.kill();
        self.0.spawn();
        // The server answers only users, so `root` sends the health check.
        wait::until("etcd answers", LONG, || self.1.is_healthy());
    }

    async fn set(&self, password: &str) {
        self.1.set_password(USER, password);
    }

    /// A change of the users makes the server refuse all earlier tokens.
    async fn cut(&self) {
        self.1.set_password("root", "root");
    }
}

/// Locks one key again and again until `done`. Returns the number of calls, none of which failed.
async fn works(pool: LockPool, key: String, done: Arc<AtomicBool>) -> usize {
    let mut calls = 0;
    while !done.load(Ordering::SeqCst) {
        let request = pool.lock(&key).ttl(TTL).wait(LONG);
        request.run(async {}).await.expect("it waits in an outage");
        calls += 1;
    }
    calls
}

/// Runs a load while the password changes and the store is down. Fails if a lease is lost, or if a
/// call with `wait` fails. Also fails if a call without `wait` waits during an outage, or if the
/// pool does not recover.
async fn serves(mut stage: impl Stage) {
    let vault = Vault::default();
    vault.set("hunter0");
    let builder = vault.builder(&stage.url(), stage.user());
    stage.kill();
    let pool = builder.connect_lazy().expect("the URL is valid");
    fail_at_once(&pool).await;
    stage.restart();
    stage.set("hunter0").await;
    comes_back(&pool, "first").await;
    let held = pool.lock("held").ttl(TTL).watchdog().wait(LONG).acquire();
    let held = held.await.expect("free");
    let done = Arc::new(AtomicBool::new(false));
    let tasks = (0..TASKS).map(|number| {
        let key = format!("load:{}", number / 2);
        tokio::spawn(works(pool.clone(), key, Arc::clone(&done)))
    });
    let tasks: Vec<_> = tasks.collect();
    for number in 1..=2 {
        let password = format!("hunter{number}");
        stage.set(&password).await;
        vault.set(&password);
        vault.is_asked(2).await;
        stage.cut().await;
        waits(&pool, "rotated").await;
        held.check().expect("no lease is lost");
    }
    stage.kill();
    while tries(&pool, "away").await.is_ok() {}
    fail_at_once(&pool).await;
    stage.restart();
    stage.set("hunter2").await;
    comes_back(&pool, "last").await;
    held.check().expect("no lease is lost");
    done.store(true, Ordering::SeqCst);
    for task in tasks {
        assert!(0 < task.await.expect("no call fails"));
    }
    held.release().await.expect("no lease is lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis() {
    serves(ServerOptions::new().append_only().start()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    let server = Postgres::start();
    let database = server.migrated();
    let owner = database.client().await;
    let role = format!("CREATE ROLE {WITH_PASSWORD} LOGIN SUPERUSER PASSWORD 'hunter0'");
    owner.batch_execute(&role).await.expect("an owner may");
    serves((server, database)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd() {
    let server = Etcd::with_signed_tokens();
    let gateway = server.gateway();
    gateway.add_user("root", "root", "root");
    gateway.add_role("locks", "shop/");
    gateway.add_user(USER, "hunter0", "locks");
    gateway.enable_users();
    let root = gateway.as_user("root", "root");
    serves((server, root)).await;
}
