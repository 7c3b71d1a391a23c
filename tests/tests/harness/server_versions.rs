//! Checks that locks on Valkey, and on a newer Redis than the system's Redis, behave like locks on
//! the system's Redis.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use leasehold::__test::{conformance, conformance_of_queues, interleave};
use leasehold::LockPool;
use leasehold_tests::brand::{Brand, REDIS_8, VALKEY};
use leasehold_tests::cluster::{MASTERS, Setup};
use leasehold_tests::random::Random;
use leasehold_tests::room;
use leasehold_tests::server::ServerOptions;

const TTL: Duration = Duration::from_secs(20);

/// Returns the path of a server program. Server programs for tests are installed in Cargo's target
/// folder.
fn program(brand: &'static Brand) -> &'static Path {
    let files = Path::new(env!("CARGO_TARGET_TMPDIR"));
    brand.program(files.parent().expect("it is in the target folder"))
}

/// Fails if a server of this brand does not pass the conformance tests, or answers random requests
/// of many clients unlike the model. Also fails if the pool's check has findings, or the server
/// does not show the client's name.
async fn conforms(brand: &'static Brand) {
    let _place = room::enter();
    let options = ServerOptions::new().program(program(brand));
    let server = options.append_only().start();
    assert!(brand.is(&server), "another version than {brand:?}");
    conformance(&server.url()).await;
    conformance_of_queues(&server.url()).await;
    let seed = Random::seeded("many clients of another server").below(1 << 32);
    let compared = interleave(&server.url(), seed, 20_000).await;
    compared.unwrap_or_else(|difference| panic!("{difference}"));
    let pool = LockPool::connect(&server.url()).await.expect("it answers");
    let report = pool.check().await.expect("it can be asked");
    assert_eq!(report.findings, [], "{report}");
    let clients: String = server.probe().run(redis::cmd("CLIENT").arg("LIST"));
    let named = |line: &&str| line.contains(" name=leasehold:");
    let ours = clients.lines().find(named).expect("it has a name");
    let library = format!(" lib-name=leasehold lib-ver={}", env!("CARGO_PKG_VERSION"));
    assert!(ours.contains(&library), "{ours}");
}

/// Fails if a cluster of this brand does not pass the conformance tests. Also fails if a lock is
/// lost while its slot moves to another node.
async fn conforms_in_a_cluster(brand: &'static Brand) {
    let _place = room::enter();
    let cluster = Setup::new().program(program(brand)).start();
    conformance(&cluster.url()).await;
    conformance_of_queues(&cluster.url()).await;
    let pool = LockPool::connect(&cluster.url()).await.expect("it answers");
    let lock = pool.lock("moves").ttl(TTL / 8).watchdog().acquire().await;
    let lock = lock.expect("free");
    let slot = cluster.slot("lock:moves");
    let to = (cluster.owner(slot) + 1) % MASTERS;
    cluster.begin_move(slot, to);
    while cluster.move_keys(slot, to, 10) > 0 {}
    tokio::time::sleep(TTL / 4).await;
    lock.check().expect("it is renewed on its way");
    cluster.finish_move(slot, to);
    lock.release().await.expect("still held");
    let again = pool.lock("moves").ttl(TTL).acquire().await;
    again.expect("free").release().await.expect("held");
}

/// Runs the fault harness with these arguments on servers of this brand. Fails if a requirement
/// does not pass.
fn withstands(brand: &'static Brand, arguments: &str) {
    let _place = room::enter();
    let name = format!("brands-{arguments}").replace(|c: char| !c.is_alphanumeric(), "-");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut harness = Command::new(env!("CARGO_BIN_EXE_chaos"));
    harness
        .env("LEASEHOLD_TEST_SERVER", program(brand))
        .args(["--small", "--minutes", "0.1", "--folder"])
        .arg(folder)
        .args(arguments.split(' '));
    let output = harness.output().expect("it starts");
    let reported = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{harness:?}: {reported}");
    assert!(reported.contains("pass"), "{harness:?}: {reported}");
}

macro_rules! brands {
    ($($name:ident: $brand:ident),+ $(,)?) => {
        $(
            mod $name {
                use super::$brand;

                #[tokio::test(flavor = "multi_thread")]
                async fn conforms() {
                    super::conforms(&$brand).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                async fn conforms_in_a_cluster() {
                    super::conforms_in_a_cluster(&$brand).await;
                }

                /// Runs requirements on one server: lost replies, restarts without persistence, and
                /// full memory.
                #[test]
                fn one_server() {
                    super::withstands(&$brand, "--store redis --requirement 6,9,17");
                }

                /// Runs requirements on a cluster: missing replicas, and a wrong configuration that
                /// must be reported at connect.
                #[test]
                fn a_cluster_with_replicas() {
                    super::withstands(&$brand, "--deployment cluster --requirement 19,23");
                }
            }
        )+
    };
}

brands! {
    valkey: VALKEY,
    redis_8: REDIS_8,
}
