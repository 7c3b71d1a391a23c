//! Requirement 38: other users of the server, who have few rights, must not be able to end a lease,
//! unless they attack this one lease. A lease must also last if the server grants fewer rights or
//! shorter sessions than before. It must even last if one packet cannot carry the requests of all
//! waiting calls.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::ground::{Ground, Requirement};
use super::neighbours;
use super::sheet::Sheet;
use super::store::Store;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 38,
    what: "neighbours with few rights and servers that grant less end no lease",
    stores: &[Store::Redis, Store::Postgres, Store::Etcd, Store::Zookeeper],
    run,
};

fn run(ground: &Ground, sheet: &Sheet) {
    let scenes = neighbours::of(ground.store);
    std::thread::scope(|scope| {
        for (name, play) in scenes {
            scope.spawn(move || {
                // A panic in one scene must not prevent the other scenes.
                let ended = catch_unwind(AssertUnwindSafe(|| play(ground, sheet)));
                sheet.check(ended.is_ok(), || format!("{name}: panicked, see above"));
            });
        }
    });
    let played = scenes.len() as u64;
    sheet.reached("scenes", played, played);
}
