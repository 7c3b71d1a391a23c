//! The fault harness: worker processes, faults from a seed, the requirements, and the seeded bugs.
//!
//! | file | contents |
//! |---|---|
//! | [`job`], [`worker`], `errand`, `calls`, `answers`, `body` | a worker |
//! | [`crew`] | the worker processes of a run, which can be stopped and killed, and its history |
//! | `ledger`, `shop`, `sale`, `orders`, `bank` | the resources that locks protect |
//! | `faults`, `storm`, `storm_postgres`, `fail_overs`, `members`, `mortals` | faults from a seed |
//! | [`store`], `site` | the store of the locks; the single server of a requirement |
//! | `ending` | the checks at the end of a run |
//! | `tally` | the progress of a run |
//! | `neighbours` | leases in spite of other users of the server |
//! | `canary` | collects all texts of the log and the metrics |
//! | `visits` | bodies whose tasks outlive their calls |
//! | `telemetry` | a log and a recorder that block or panic |
//! | [`ground`], [`sheet`] | a requirement's environment and its results |
//! | `r01_…` to `r39_…` | the requirements |
//! | [`seeded`] | the bugs that the oracle must find |
//! | [`table`] | the results as a table |

mod answers;
mod bank;
mod body;
mod calls;
mod canary;
pub mod crew;
mod ending;
mod ensembles;
mod errand;
mod fail_overs;
mod faults;
mod gauge;
pub mod ground;
pub mod job;
mod ledger;
mod members;
mod mortals;
mod neighbours;
mod orders;
mod r01_exclusion;
mod r01_fail_overs;
mod r01_quorum;
mod r01_sessions;
mod r02_stops;
mod r03_sent;
mod r04_loss;
mod r05_exits;
mod r06_idempotence;
mod r07_orphans;
mod r07_sessions;
mod r08_ownership;
mod r09_fences;
mod r10_sql;
mod r11_outages;
mod r12_kills;
mod r12_sessions;
mod r13_minority;
mod r14_quarantine;
mod r15_cleaning;
mod r16_blocked;
mod r17_full;
mod r18_errors;
mod r19_replicas;
mod r20_shutdown;
mod r21_keys;
mod r22_secrets;
mod r23_checks;
mod r23_deployments;
mod r24_permits;
mod r24_queues;
mod r24_readers;
mod r25_soak;
mod r26_clients;
mod r26_company;
mod r26_foreign_clients;
mod r26_ours;
mod r26_rslock;
mod r26_visit;
mod r27_telemetry;
mod r28_priority;
mod r29_forms;
mod r30_clock;
mod r31_full;
mod r32_release;
mod r33_earlier_version;
mod r33_sections;
mod r34_fail_overs;
mod r34_faults;
mod r34_replay;
mod r35_operators;
mod r36_commits;
mod r37_drops;
mod r38_neighbours;
mod r39_leadership;
mod sale;
pub mod seeded;
pub mod sheet;
mod shop;
mod sighting;
mod site;
mod span;
pub mod store;
mod storm;
mod storm_postgres;
pub mod table;
mod tally;
mod telemetry;
mod visits;
mod witness;
pub mod worker;

use ground::Requirement;

/// Requirements that run only if they are named on the command line. Their spinning threads use up
/// the processors, so that other requirements would exceed their time bounds.
pub const ONLY_BY_NAME: &[u8] = &[28];

/// All requirements of the harness.
pub const REQUIREMENTS: [Requirement; 48] = [
    r01_exclusion::REQUIREMENT,
    r01_quorum::REQUIREMENT,
    r01_fail_overs::REQUIREMENT,
    r01_sessions::REQUIREMENT,
    r02_stops::REQUIREMENT,
    r03_sent::REQUIREMENT,
    r04_loss::REQUIREMENT,
    r05_exits::REQUIREMENT,
    r06_idempotence::REQUIREMENT,
    r07_orphans::REQUIREMENT,
    r07_sessions::REQUIREMENT,
    r08_ownership::REQUIREMENT,
    r09_fences::REQUIREMENT,
    r10_sql::REQUIREMENT,
    r11_outages::REQUIREMENT,
    r12_kills::REQUIREMENT,
    r12_sessions::REQUIREMENT,
    r13_minority::REQUIREMENT,
    r14_quarantine::REQUIREMENT,
    r15_cleaning::REQUIREMENT,
    r16_blocked::REQUIREMENT,
    r17_full::REQUIREMENT,
    r18_errors::REQUIREMENT,
    r19_replicas::REQUIREMENT,
    r20_shutdown::REQUIREMENT,
    r21_keys::REQUIREMENT,
    r22_secrets::REQUIREMENT,
    r23_checks::REQUIREMENT,
    r23_deployments::REQUIREMENT,
    r24_queues::REQUIREMENT,
    r24_readers::REQUIREMENT,
    r24_permits::REQUIREMENT,
    r25_soak::REQUIREMENT,
    r26_foreign_clients::REQUIREMENT,
    r27_telemetry::REQUIREMENT,
    r28_priority::REQUIREMENT,
    r29_forms::REQUIREMENT,
    r30_clock::REQUIREMENT,
    r31_full::REQUIREMENT,
    r32_release::REQUIREMENT,
    r33_earlier_version::REQUIREMENT,
    r34_replay::REQUIREMENT,
    r34_fail_overs::REQUIREMENT,
    r35_operators::REQUIREMENT,
    r36_commits::REQUIREMENT,
    r37_drops::REQUIREMENT,
    r38_neighbours::REQUIREMENT,
    r39_leadership::REQUIREMENT,
];
