//! Small runs of most requirements of the fault harness. `scripts/chaos` runs the requirements at
//! full size.

use std::path::Path;
use std::time::Duration;

use leasehold_tests::chaos::REQUIREMENTS;
use leasehold_tests::chaos::ground::{Ground, Size};
use leasehold_tests::chaos::store::Store;
use leasehold_tests::random::Random;
use leasehold_tests::rerun::fails_with;
use leasehold_tests::room::{self, Places};

/// Runs the requirement with this number. If several requirements have this number, runs the one
/// whose text contains `word`.
fn play(number: u8, word: &str, store: Store) {
    let _places = places(number, store);
    let seed = Random::seeded(&format!("requirement {number}")).below(1_000_000);
    let ground = Ground {
        program: env!("CARGO_BIN_EXE_chaos").into(),
        folder: Path::new(env!("CARGO_TARGET_TMPDIR")).join("chaos"),
        seed,
        store,
        size: Size::Small,
        time: Duration::from_secs(8),
        sections: 1,
    };
    let requirement = REQUIREMENTS.iter().find(|requirement| {
        requirement.number == number
            && requirement.stores.contains(&store)
            && requirement.what.contains(word)
    });
    let outcome = requirement.expect("it is on the list").outcome(&ground);
    let failures = outcome.failures.join("\n");
    assert!(
        outcome.passed(),
        "seed {seed}: {failures}\n{}",
        outcome.numbers()
    );
}

/// Waits until a requirement may run. A requirement that measures the duration of calls, or that
/// gives calls little time, must run alone.
fn places(number: u8, store: Store) -> Places {
    match (number, store) {
        (5 | 13 | 16 | 18 | 22 | 37 | 38, _) | (11, Store::Redis) => room::alone(),
        _ => room::enter(),
    }
}

macro_rules! requirements {
    ($($name:ident: $number:literal $($word:literal)? $store:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                play($number, concat!($($word)?), Store::$store);
            }
        )+
    };
}

requirements! {
    exclusion: 1 Redis,
    exclusion_in_memory: 1 Memory,
    exclusion_on_postgres: 1 Postgres,
    stops_on_postgres: 2 Postgres,
    losses_on_postgres: 4 Postgres,
    exits_on_postgres: 5 Postgres,
    replies_are_lost_on_postgres: 6 Postgres,
    orphans_on_postgres: 7 Postgres,
    ownership_on_postgres: 8 Postgres,
    outages_on_postgres: 11 Postgres,
    kills_on_postgres: 12 Postgres,
    blocked_on_postgres: 16 Postgres,
    shutdown_on_postgres: 20 Postgres,
    dead_waiters_on_postgres: 24 "dead waiters" Postgres,
    readers_and_writers_on_postgres: 24 "readers and writers" Postgres,
    permits_on_postgres: 24 "permits" Postgres,
    forms_on_postgres: 29 Postgres,
    stops: 2 Redis,
    stops_in_memory: 2 Memory,
    leases_count_from_their_request: 3 Redis,
    losses_are_signalled: 4 Redis,
    exits: 5 Redis,
    exits_in_memory: 5 Memory,
    exits_of_sessions: 5 Etcd,
    exits_of_zookeeper: 5 Zookeeper,
    replies_are_lost: 6 Redis,
    orphans: 7 Redis,
    ownership: 8 Redis,
    ownership_in_memory: 8 Memory,
    fences: 9 Redis,
    quorum: 1 Redlock,
    all_replicas: 1 Replicas,
    all_replicas_of_a_cluster: 1 Cluster,
    sessions: 1 Etcd,
    orphans_of_sessions: 7 Etcd,
    kills_of_sessions: 12 Etcd,
    sessions_of_zookeeper: 1 Zookeeper,
    orphans_of_zookeeper: 7 Zookeeper,
    kills_of_zookeeper: 12 Zookeeper,
    sql: 10 Redis,
    sql_in_memory: 10 Memory,
    outages: 11 Redis,
    kills: 12 Redis,
    minority: 13 Redlock,
    quarantine: 14 Redlock,
    cleaning: 15 Redlock,
    blocked: 16 Redis,
    blocked_in_memory: 16 Memory,
    blocked_of_sessions: 16 Etcd,
    blocked_of_zookeeper: 16 Zookeeper,
    too_few_replicas: 19 Replicas,
    too_few_replicas_in_a_cluster: 19 Cluster,
    error_classes: 18 Redis,
    error_classes_of_a_quorum: 18 Redlock,
    keys: 21 Memory,
    secrets: 22 Redis,
    checks_at_connect: 23 Redis,
    checks_of_nodes: 23 Redlock,
    checks_of_sentinels: 23 Sentinel,
    checks_of_a_cluster: 23 Cluster,
    dead_waiters: 24 "dead waiters" Redis,
    readers_and_writers: 24 "readers and writers" Redis,
    permits: 24 "permits" Redis,
    soak: 25 Redis,
    clients_without_a_queue_get_in: 26 Redis,
    telemetry: 27 Redis,
    forms: 29 Redis,
    forms_in_memory: 29 Memory,
    server_clock: 30 Redis,
    full_server: 31 Redis,
    releases: 32 Redis,
    the_earlier_version_interoperates: 33 Redis,
    replays: 34 Redis,
    replays_survive_fail_overs: 34 Sentinel,
    replays_survive_fail_overs_of_a_cluster: 34 Cluster,
    operators: 35 Redis,
    exact_commits: 36 Postgres,
    drops: 37 Redis,
    drops_in_memory: 37 Memory,
    drops_on_postgres: 37 Postgres,
    drops_of_sessions: 37 Etcd,
    drops_of_zookeeper: 37 Zookeeper,
    neighbours: 38 Redis,
    neighbours_on_postgres: 38 Postgres,
    neighbours_on_etcd: 38 Etcd,
    neighbours_on_zookeeper: 38 Zookeeper,
    leadership: 39 Redis,
    leadership_on_postgres: 39 Postgres,
    leadership_on_etcd: 39 Etcd,
    leadership_on_zookeeper: 39 Zookeeper,
}

/// Runs requirement 39 with a seeded bug that allows two leaders at the same time. Fails if the
/// requirement passes.
#[test]
fn a_second_leader_is_detected() {
    fails_with("TwoLeaders", "requirements::leadership");
}

/// Runs requirement 37 with a seeded bug: a handle stays valid after its call was dropped. Fails if
/// the requirement passes.
#[test]
fn a_handle_valid_after_its_call_is_detected() {
    fails_with("HandleOutlivesItsCall", "requirements::drops_in_memory");
}
