//! Scenes on etcd. Another team adds roles to the server, or the connection of a process with many
//! waiting calls is cut.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use super::tenants::{LONG_FOR_A_LEASE, Tenants};
use super::{Scene, crowd};
use crate::chaos::ground::Ground;
use crate::chaos::sheet::Sheet;
use crate::etcd::Etcd;
use crate::pipe::Pipe;
use crate::session_server::SessionServer;

pub(super) const SCENES: &[Scene] = &[("another team adds roles", roles), (crowd::SCENE, crowd)];

const TENANTS: usize = 20;

/// Adds roles to the server again and again. After each new role the server refuses all earlier
/// log-in tokens, including those of the pool.
fn roles(_ground: &Ground, sheet: &Sheet) {
    const SCENE: &str = "another team adds roles";
    let server = Etcd::with_signed_tokens();
    let gateway = server.gateway();
    gateway.add_user("root", "root", "root");
    gateway.add_role("locks", "shop/");
    gateway.add_user("service", "hunter2", "locks");
    gateway.enable_users();
    let url = format!("etcd://service:hunter2@{}/shop", server.address());
    let tenants = Tenants::move_in(&url, TENANTS);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let root = gateway.as_user("root", "root");
            for number in 0.. {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                root.add_role(&format!("team-{number}"), "team/");
                sleep(Duration::from_millis(300));
            }
        });
        sleep(LONG_FOR_A_LEASE);
        over.store(true, Ordering::Relaxed);
    });
    tenants.last(sheet, SCENE);
    tenants.turn(sheet, SCENE, "turn");
}

fn crowd(ground: &Ground, sheet: &Sheet) {
    let server = Etcd::start();
    let url = |pipe: &Pipe| Etcd::url_of_all([pipe.address()], "crowd");
    crowd::is_cut(
        sheet,
        server.address(),
        url,
        &server.url("crowd"),
        ground.count(2_000, 400),
    );
}
