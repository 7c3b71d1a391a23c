//! Scenes on Redis. A user without rights on the locks keeps the server busy, or the server refuses
//! channels or new connections. Other scenes have long keys, or many waiting calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use leasehold::LockPool;
use redis::cmd;

use super::tenants::{LONG_FOR_A_LEASE, TTL, Tenants};
use super::{Scene, crowd};
use crate::chaos::ground::Ground;
use crate::chaos::sheet::Sheet;
use crate::pipe::Pipe;
use crate::redis_probe::RedisProbe;
use crate::server::Server;

pub(super) const SCENES: &[Scene] = &[
    ("a user beside sends what is large and slow", noise),
    ("the user of the pool loses its channels", channels),
    ("the server has as many clients as it allows", clients),
    ("keys are as long as they may be", long_keys),
    (crowd::SCENE, crowd),
];

const TENANTS: usize = 20;
/// Script that blocks the server for 100 ms.
const SLOW: &str =
    "local function now() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end
    local from = now() while now() - from < 100000 do end return 1";

fn user(server: &Server, name: &str, rules: &[&str]) -> String {
    let mut acl = cmd("ACL");
    acl.arg("SETUSER").arg(name).arg("reset").arg("on");
    acl.arg(format!(">{name}")).arg(rules);
    server.probe().run::<()>(&acl);
    format!("redis://{name}:{name}@127.0.0.1:{}/", server.port())
}

fn noise(_ground: &Ground, sheet: &Sheet) {
    const SCENE: &str = "a user beside sends what is large and slow";
    let server = Server::start();
    let tenants = Tenants::move_in(&server.url(), TENANTS);
    let rules = [
        "~other:*",
        "resetchannels",
        "+@all",
        "-@admin",
        "-@dangerous",
    ];
    let url = user(&server, "noisy", &rules);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (url, over) = (&url, &over);
            scope.spawn(move || {
                let probe = RedisProbe::connect(url);
                let large = "x".repeat(8 << 20);
                while !over.load(Ordering::Relaxed) {
                    let mut set = cmd("SET");
                    set.arg(format!("other:{number}")).arg(&large);
                    // Errors are ignored. This client may lose its connection while the slow
                    // commands of the other threads block the server.
                    let _ = probe.try_run::<()>(&set);
                    let _ = probe.try_run::<String>(cmd("GET").arg(format!("other:{number}")));
                    let _ = probe.try_run::<i64>(cmd("EVAL").arg(SLOW).arg(0));
                    let _ = probe.try_run::<()>(cmd("SCRIPT").arg("FLUSH"));
                    let forged = probe.try_run::<i64>(cmd("PUBLISH").arg("lock:").arg("t"));
                    assert!(forged.is_err(), "it has no channels");
                }
            });
        }
        sleep(LONG_FOR_A_LEASE);
        tenants.last(sheet, SCENE);
        tenants.turn(sheet, SCENE, "turn");
        over.store(true, Ordering::Relaxed);
    });
    tenants.last(sheet, SCENE);
}

/// Removes the permission for channels from the pool's user. The pool must keep its locks, because
/// no lease depends on the messages of a channel.
fn channels(_ground: &Ground, sheet: &Sheet) {
    const SCENE: &str = "the user of the pool loses its channels";
    let server = Server::start();
    let (_, rule) = leasehold::__test::permissions();
    let url = user(&server, "few", &rule.split(' ').collect::<Vec<_>>());
    let tenants = Tenants::move_in(&url, TENANTS);
    let probe = server.probe();
    let mut acl = cmd("ACL");
    probe.run::<()>(acl.arg("SETUSER").arg("few").arg("resetchannels"));
    let mut kill = cmd("CLIENT");
    probe.run::<()>(kill.arg("KILL").arg("USER").arg("few"));
    sleep(LONG_FOR_A_LEASE);
    tenants.last(sheet, SCENE);
    tenants.turn(sheet, SCENE, "turn");
}

fn clients(_ground: &Ground, sheet: &Sheet) {
    const SCENE: &str = "the server has as many clients as it allows";
    let server = Server::start();
    let tenants = Tenants::move_in(&server.url(), TENANTS);
    let probe = server.probe();
    let mut set = cmd("CONFIG");
    probe.run::<()>(set.arg("SET").arg("maxclients").arg(1));
    let refused = LockPool::builder()
        .url(server.url())
        .io_timeout(TTL)
        .connect();
    let refused = tenants.runtime.block_on(refused);
    sheet.check(refused.is_err_and(|error| error.is_unavailable()), || {
        format!("{SCENE}: a pool that cannot connect is not notified so")
    });
    sleep(LONG_FOR_A_LEASE);
    tenants.last(sheet, SCENE);
    let mut set = cmd("CONFIG");
    probe.run::<()>(set.arg("SET").arg("maxclients").arg(10_000));
    tenants.turn(sheet, SCENE, "turn");
}

fn long_keys(_ground: &Ground, sheet: &Sheet) {
    const SCENE: &str = "keys are as long as they may be";
    let server = Server::start();
    let tenants = Tenants::move_in(&server.url(), 1);
    for letter in ["k", "\u{20ac}", ":", "%", "\u{1f512}"] {
        tenants.turn(sheet, SCENE, &letter.repeat(512 / letter.len()));
    }
    sleep(Duration::from_millis(10));
    tenants.last(sheet, SCENE);
}

fn crowd(ground: &Ground, sheet: &Sheet) {
    let server = Server::start();
    let url = |pipe: &Pipe| format!("redis://{}/", pipe.address());
    crowd::is_cut(
        sheet,
        server.address(),
        url,
        &server.url(),
        ground.count(5_000, 400),
    );
}
