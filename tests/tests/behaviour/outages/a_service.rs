//! Tests of a service under load. The service starts before its store, its password changes twice,
//! and its store fails over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::redis::{Cmd, cmd};
use leasehold::LockPool;
use leasehold_tests::etcd::{Etcd, Gateway};
use leasehold_tests::postgres::{Database, Postgres, WITH_PASSWORD};
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::sentinel::{Deployment, MASTER};
use leasehold_tests::server::Server;
use leasehold_tests::session_server::SessionServer as _;
use leasehold_tests::wait;

use super::credentials::{USER, Vault, kill_clients, set_user};
use super::{LONG, TTL, comes_back, fail_at_once, tries, waits};

/// Number of tasks that lock a key again and again.
const TASKS: usize = 8;

/// The ttl of a lease that must survive the fail-over.
const KEPT: Duration = Duration::from_secs(30);

/// The name of the standby at its primary.
const STANDBY: &str = "standby";

/// A store with a user whose password changes, and with a server that can take over.
trait Stage {
    fn url(&self) -> String;
    fn user(&self) -> &'static str;
    /// Makes the store unavailable until [`rise`](Self::rise) or [`take_over`](Self::take_over).
    fn fall(&mut self);
    /// Starts the killed servers again.
    fn rise(&mut self);
    /// Lets another server grant the locks, and leaves the previous one dead.
    fn take_over(&mut self);
    /// Changes the user's password on the servers.
    async fn set(&self, password: &str);
    /// Ends the user's connections, or makes their logins invalid.
    async fn cut(&self);
}

/// A master, two replicas and three Sentinels.
struct Sentinels {
    deployment: Deployment,
    dead: Option<Server>,
}

impl Sentinels {
    fn start() -> Self {
        Self {
            deployment: Deployment::start(),
            dead: None,
        }
    }

    fn everywhere(&self, command: &Cmd) {
        let replicas = self.deployment.replicas();
        for server in replicas.chain([self.deployment.master()]) {
            server.probe().run::<()>(command);
        }
    }

    /// Sets the silence, in milliseconds, after which the Sentinels replace the master.
    fn replace_after(&self, silence: &str) {
        for port in self.deployment.ports() {
            let set = ["SET", MASTER, "down-after-milliseconds", silence];
            let probe = RedisProbe::connect(&format!("redis://127.0.0.1:{port}"));
            probe.run::<()>(cmd("SENTINEL").arg(&set));
        }
    }
}

impl Stage for Sentinels {
    fn url(&self) -> String {
        self.deployment.url() + "?replicas=1"
    }

    fn user(&self) -> &'static str {
        USER
    }

    fn fall(&mut self) {
        self.replace_after("3600000");
        self.dead = Some(self.deployment.kill_master());
    }

    fn rise(&mut self) {
        let dead = self.dead.take().expect("the master was killed");
        self.deployment.bring_back(dead);
    }

    fn take_over(&mut self) {
        // The Sentinels count a server as down after 5 s. They promote only replicas that were cut
        // off from the master for at most ten times this time, here 50 s.
        self.replace_after("5000");
        let dead = self.dead.as_ref().expect("the master was killed");
        self.deployment.wait_for_fail_over(dead.announced_port());
    }

    async fn set(&self, password: &str) {
        self.everywhere(&set_user(password));
    }

    async fn cut(&self) {
        self.everywhere(&kill_clients());
    }
}

/// A primary and a standby.
struct Pair {
    primary: Postgres,
    standby: Postgres,
    database: Database,
}

impl Pair {
    async fn start() -> Self {
        // With `wal_retrieve_retry_interval`, the standby connects to a restarted primary almost at
        // once.
        let primary = Postgres::start_with(&["fsync=off", "wal_retrieve_retry_interval=100ms"]);
        let database = primary.migrated();
        let owner = database.client().await;
        let role = format!("CREATE ROLE {WITH_PASSWORD} LOGIN SUPERUSER PASSWORD 'hunter0'");
        owner.batch_execute(&role).await.expect("an owner may");
        Self {
            standby: primary.standby(STANDBY),
            primary,
            database,
        }
    }

    async fn run(&self, statement: &str) {
        let owner = self.database.client().await;
        owner.batch_execute(statement).await.expect("an owner may");
    }
}

impl Stage for Pair {
    fn url(&self) -> String {
        let url = self.database.url_on(&[&self.primary, &self.standby]);
        let (_, servers) = url.split_once('@').expect("it names a user");
        format!("postgres://nobody@{servers}")
    }

    fn user(&self) -> &'static str {
        WITH_PASSWORD
    }

    fn fall(&mut self) {
        self.primary.wait_for(STANDBY);
        self.primary.kill();
    }

    fn rise(&mut self) {
        self.primary.restart();
    }

    fn take_over(&mut self) {
        self.standby.promote();
    }

    async fn set(&self, password: &str) {
        self.run(&format!("ALTER ROLE {WITH_PASSWORD} PASSWORD '{password}'"))
            .await;
    }

    async fn cut(&self) {
        self.run(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{WITH_PASSWORD}'"
        ))
        .await;
    }
}

/// The members of a cluster, and the index of the member that was the leader when `Stage::fall`
/// last made the cluster unavailable.
struct Members {
    all: Vec<Etcd>,
    led: usize,
}

impl Members {
    fn start() -> Self {
        let all = Etcd::cluster_with_signed_tokens(3);
        let gateway = all[0].gateway();
        gateway.add_user("root", "root", "root");
        gateway.add_role("locks", "shop/");
        gateway.add_user(USER, "hunter0", "locks");
        gateway.enable_users();
        Self { all, led: 0 }
    }

    /// Returns a client of a member other than `led`, because `Stage::take_over` leaves that member
    /// dead.
    fn root(&self) -> Gateway {
        let member = (self.led + 1) % self.all.len();
        self.all[member].gateway().as_user("root", "root")
    }

    fn start_all_but(&mut self, dead: Option<usize>) {
        for (number, member) in self.all.iter_mut().enumerate() {
            if Some(number) != dead {
                member.spawn();
            }
        }
        wait::until("etcd answers", LONG, || self.root().is_healthy());
    }
}

impl Stage for Members {
    fn url(&self) -> String {
        Etcd::url_of(&self.all, "shop")
    }

    fn user(&self) -> &'static str {
        USER
    }

    fn fall(&mut self) {
        wait::until("the cluster has a leader", LONG, || {
            let led = self.all.iter().position(Etcd::leads);
            self.led = led.unwrap_or(self.led);
            led.is_some()
        });
        self.all.iter_mut().for_each(Etcd::kill);
    }

    fn rise(&mut self) {
        self.start_all_but(None);
    }

    fn take_over(&mut self) {
        self.start_all_but(Some(self.led));
    }

    async fn set(&self, password: &str) {
        self.root().set_password(USER, password);
    }

    /// Sets the password of `root` again. After any change of a user, the servers refuse all
    /// earlier login tokens.
    async fn cut(&self) {
        self.root().set_password("root", "root");
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

/// Runs a load while the password changes and the store fails over. Fails if a lease is lost, or if
/// a call with `wait` fails. Also fails if a call without `wait` waits during an outage, or if the
/// pool does not follow the fail-over.
async fn serves(mut stage: impl Stage) {
    let vault = Vault::default();
    vault.set("hunter0");
    let builder = vault.builder(&stage.url(), stage.user());
    stage.fall();
    let pool = builder.connect_lazy().expect("the URL is valid");
    fail_at_once(&pool).await;
    stage.rise();
    stage.set("hunter0").await;
    comes_back(&pool, "first").await;
    let held = pool.lock("held").ttl(KEPT).watchdog().wait(LONG).acquire();
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
    stage.fall();
    while tries(&pool, "away").await.is_ok() {}
    fail_at_once(&pool).await;
    stage.take_over();
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
    serves(Sentinels::start()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    serves(Pair::start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd() {
    serves(Members::start()).await;
}
