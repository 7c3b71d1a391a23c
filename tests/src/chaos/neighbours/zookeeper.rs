//! A server that grants shorter sessions than before, more watched paths than a packet carries, and
//! a client with many nodes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold::{LockError, LockGuard, LockPool};
use tokio::task::JoinSet;

use super::Scene;
use super::tenants::{LONG_FOR_A_LEASE, TTL, Tenants};
use crate::chaos::ground::{Ground, connect};
use crate::chaos::sheet::Sheet;
use crate::pipe::{Flow, Pipe};
use crate::session_server::SessionServer;
use crate::wait;
use crate::zookeeper::{Settings, Zookeeper};

pub(super) const SCENES: &[Scene] = &[
    ("sessions become shorter", shorter),
    ("many calls wait, and the connection is cut", watches),
    ("a client beside makes many nodes", nodes),
];

const TENANTS: usize = 20;
/// The ttl beside a crowd, which needs a while to ask again.
pub(super) const CROWDED: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(60);

/// A restarted server grants less. A holder that is cut off then must leave before the next one
/// comes.
fn shorter(_ground: &Ground, sheet: &Sheet) {
    const SCENE: &str = "sessions become shorter";
    let mut server = Settings::new()
        .longest_session(Duration::from_secs(40))
        .start();
    let pipe = Pipe::start(server.address());
    let url = Zookeeper::url_of_all([pipe.address()], "shorter");
    let tenants = Tenants::move_in(&url, 1);
    let held = tenants.take("held", Duration::from_secs(20));
    server.set_longest_session(Duration::from_secs(6));
    server.restart();
    // It has renewed its session with the new server, or has given it up.
    tenants.turn(sheet, SCENE, "turn");
    sleep(TTL);
    pipe.set(Flow::BlackHole);
    sheet.faults(SCENE, 1);
    let next = tenants.runtime.block_on(async {
        let other = connect(&server.url("shorter")).await;
        let asked = other.lock("held").ttl(TTL).wait(LONG).acquire();
        let next = asked.await;
        let beside = held.check().is_ok();
        (next.map(drop), beside)
    });
    let (next, beside) = next;
    sheet.check(next.is_ok(), || {
        format!("{SCENE}: the next holder: {next:?}")
    });
    if beside {
        let from = Instant::now();
        wait::try_until(LONG, || held.check().is_err());
        sheet.overlap(format!(
            "{SCENE}: the cut holder believed in its lock for {:?} beside the next one",
            from.elapsed()
        ));
    }
}

/// More than a packet carries: a client sends its watched paths again when it has connected again.
fn watches(ground: &Ground, sheet: &Sheet) {
    const SCENE: &str = "many calls wait, and the connection is cut";
    let server = Settings::new().longest_session(LONG).start();
    let pipe = Pipe::start(server.address());
    let url = Zookeeper::url_of_all([pipe.address()], "crowd");
    let tenants = Tenants::move_in_for(CROWDED, &url, TENANTS);
    let names = long_names(ground.count(5_000, 400));
    let crowd = crowd(&tenants, &server.url("crowd"), &names);
    pipe.cut();
    sleep(TTL);
    pipe.cut();
    sleep(CROWDED * 3 / 2);
    tenants.last(sheet, SCENE);
    crowd.let_in(&tenants, sheet, SCENE);
}

fn nodes(_ground: &Ground, sheet: &Sheet) {
    const SCENE: &str = "a client beside makes many nodes";
    let server = Settings::new().start();
    let tenants = Tenants::move_in(&server.url("beside"), TENANTS);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let client = server.client();
            client.make_path("/other");
            let name = format!("/other/{}", "n".repeat(400));
            while !over.load(Ordering::Relaxed) {
                client.enqueue(&name);
            }
            // The answer is larger than most others.
            client.names("/other");
        });
        sleep(LONG_FOR_A_LEASE);
        over.store(true, Ordering::Relaxed);
    });
    tenants.last(sheet, SCENE);
    tenants.turn(sheet, SCENE, "turn");
}

/// Names of 480 bytes.
pub(super) fn long_names(many: u64) -> Vec<String> {
    let name = |number| format!("{number:05}-{}", "w".repeat(474));
    (0..many).map(name).collect()
}

/// Calls of the tenants' process that wait for locks which another process has.
pub(super) struct Crowd {
    held: Vec<LockGuard>,
    waits: JoinSet<Option<LockError>>,
    _other: LockPool,
}

/// Lets a call wait for each of these names.
pub(super) fn crowd(tenants: &Tenants, url: &str, names: &[String]) -> Crowd {
    let ttl = LONG * 2;
    tenants.runtime.block_on(async {
        let other = connect(url).await;
        let mut held = Vec::new();
        for part in names.chunks(50) {
            let mut asked = JoinSet::new();
            for name in part {
                let asks = other.lock(name).ttl(CROWDED).wait(LONG).watchdog();
                asked.spawn(asks.acquire());
            }
            for taken in asked.join_all().await {
                held.push(taken.expect("it is free"));
            }
        }
        let mut waits = JoinSet::new();
        for name in names {
            let asks = tenants.pool.lock(name).ttl(TTL).wait(ttl);
            waits.spawn(async move { asks.acquire().await.err() });
        }
        // Each has asked by then.
        tokio::time::sleep(TTL).await;
        Crowd {
            held,
            waits,
            _other: other,
        }
    })
}

impl Crowd {
    /// Fails unless each call that waits gets its lock when the other process gives it up.
    pub(super) fn let_in(self, tenants: &Tenants, sheet: &Sheet, scene: &str) {
        let many = self.held.len();
        let mut waits = self.waits;
        let let_in = tenants.runtime.block_on(async {
            drop(self.held);
            let (mut let_in, mut refused) = (0, Vec::new());
            let all = async {
                while let Some(ended) = waits.join_next().await {
                    match ended.expect("no panic") {
                        None => let_in += 1,
                        Some(error) => refused.push(error),
                    }
                }
            };
            // Those that are still missing then are counted.
            let _ = tokio::time::timeout(LONG, all).await;
            (let_in, refused)
        });
        let (let_in, refused) = let_in;
        sheet.check(let_in == many, || {
            format!("{scene}: {let_in} of {many} waiting calls came in; refused: {refused:?}")
        });
    }
}
