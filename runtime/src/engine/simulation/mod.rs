//! A simulation of several cores and one server, with simulated time, and a network that delays and
//! loses messages and cuts connections.
//!
//! A run depends only on its seed: it reads no clock and opens no socket. The test prints a failing
//! seed. To run that seed alone, use `LEASEHOLD_SEED=<seed> cargo test -p leasehold simulation`.

mod acquire_all;
mod callers;
mod kept;
mod make_way;
mod network;
mod random;
mod results;
mod server;
mod world;

use std::env;
use std::num::NonZero;
use std::str::FromStr;
use std::thread::{self, ScopedJoinHandle};

use self::world::{Outcome, World};
use crate::selftest::seeded_bugs::Bug;

/// Reads a number from the environment.
fn number<T: FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is a number, and not `{text}`")))
}

/// Applies `run` to each item, with one thread per processor.
fn on_all_processors<'env, I: Sync, T: Send>(
    items: &'env [I],
    run: impl Fn(&I) -> T + Sync,
) -> Vec<T> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let (share, run) = (items.len().div_ceil(threads), &run);
    thread::scope(|scope| {
        let start =
            |items: &'env [I]| scope.spawn(move || items.iter().map(run).collect::<Vec<_>>());
        let running: Vec<_> = items.chunks(share).map(start).collect();
        let done = running.into_iter().map(ScopedJoinHandle::join);
        done.flat_map(|done| done.expect("no run panics")).collect()
    })
}

/// Fails if a seed leads to a violation, or if some events are too rare. Runs 1,000 seeds, or as
/// many as `LEASEHOLD_SEEDS` specifies.
#[test]
fn the_simulation_holds_for_all_seeds() {
    let count = number("LEASEHOLD_SEEDS").unwrap_or(1_000);
    let alone = number("LEASEHOLD_SEED");
    let seeds = alone.map_or_else(|| (1..=count).collect(), |seed| vec![seed]);
    let outcomes = on_all_processors(&seeds, |&seed| (seed, World::new(seed, None).run()));
    let mut total = Outcome::default();
    for (seed, outcome) in outcomes {
        let violations = &outcome.violations;
        assert!(
            violations.is_empty(),
            "LEASEHOLD_SEED={seed}: {violations:#?}"
        );
        total.add(&outcome);
    }
    if alone.is_some() {
        return;
    }
    // Checks that each event happened often enough, because a simulation without events finds no
    // bug.
    let count = usize::try_from(count).expect("so many seeds take too long");
    for (events, of_a_thousand) in [
        (total.granted, 5_000),
        (total.handed_over, 150),
        (total.ways, 40),
        (total.shared, 100),
        (total.downgraded, 100),
        (total.all_at_once, 200),
        (total.individually, 500),
        (total.refused, 5_000),
        (total.kept, 200),
        (total.recorded, 200),
        (total.recalled, 100),
        (total.lost, 100),
        (total.cuts, 1_000),
        (total.pauses, 1_000),
    ] {
        assert!(of_a_thousand * count < events * 1_000, "{total:?}");
    }
}

/// Fails if the simulation does not find a seeded bug of the core within 2,000 seeds.
#[test]
#[ignore = "takes a minute of two processors: `scripts/check` runs it"]
fn the_simulation_detects_every_seeded_bug() {
    let found = on_all_processors(&Bug::IN_CORE, |&bug| {
        let finds = |seed| !World::new(seed, Some(bug)).run().violations.is_empty();
        (bug, (1..=2_000).any(finds))
    });
    for (bug, is_found) in found {
        assert!(is_found, "{bug:?} was not found");
    }
}
