//! Requirement 38: a lease must last in spite of other users of the server with few rights, if they
//! do not attack this lease itself. It must also last if a server grants fewer rights or shorter
//! sessions than before, or if the requests of waiting calls exceed one packet.

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
