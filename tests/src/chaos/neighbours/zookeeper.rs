//! Scenes on ZooKeeper. The server grants shorter sessions than before, a process watches more
//! paths than fit into a packet, or another client creates many nodes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::tenants::{LONG_FOR_A_LEASE, TTL, Tenants};
use super::{Scene, crowd};
use crate::chaos::ground::{Ground, connect};
use crate::chaos::sheet::Sheet;
use crate::pipe::{Flow, Pipe};
use crate::session_server::SessionServer;
use crate::wait;
use crate::zookeeper::{Settings, Zookeeper};

pub(super) const SCENES: &[Scene] = &[
    ("sessions become shorter", shorter),
    (crowd::SCENE, crowd),
    ("a client beside makes many nodes", nodes),
];

const TENANTS: usize = 20;
const LONG: Duration = Duration::from_secs(60);

/// Restarts the server with shorter sessions, and then cuts a holder off. The holder must report
/// the loss of its lock before another call gets this lock.
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
    // The holder is cut off only after it has renewed its session with the restarted server, or has
    // abandoned the session. The next two statements give it time for this.
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

/// Cuts the connection of a client that watches more paths than fit into a packet. After the
/// reconnect, the client must send all its watched paths again.
fn crowd(ground: &Ground, sheet: &Sheet) {
    let server = Settings::new().longest_session(LONG).start();
    let url = |pipe: &Pipe| Zookeeper::url_of_all([pipe.address()], "crowd");
    crowd::is_cut(
        sheet,
        server.address(),
        url,
        &server.url("crowd"),
        ground.count(5_000, 400),
    );
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
            // Makes the server send a very large answer, which lists all nodes.
            client.names("/other");
        });
        sleep(LONG_FOR_A_LEASE);
        over.store(true, Ordering::Relaxed);
    });
    tenants.last(sheet, SCENE);
    tenants.turn(sheet, SCENE, "turn");
}
