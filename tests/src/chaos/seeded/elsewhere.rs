//! The seeded bugs that the oracle does not detect, each with another test that fails because of
//! the bug.

/// A seeded bug without a scenario for the oracle, and the test that fails because of the bug.
#[derive(Debug, Clone, Copy)]
pub struct Elsewhere {
    /// The name of the bug in `leasehold::__test::bugs`.
    pub bug: &'static str,
    /// The program that has the test: a test program of this package, `leasehold` for the unit
    /// tests of that crate, or `models` for `runtime/src/engine/driver/model.rs`.
    pub program: &'static str,
    /// The name of the test.
    pub test: &'static str,
    /// A description of the test.
    pub what: &'static str,
}

/// All seeded bugs without a scenario. Each test program verifies that the tests named here fail
/// with their bugs.
pub const ELSEWHERE: &[Elsewhere] = &[
    Elsewhere {
        bug: "LatestEndReported",
        program: "behaviour",
        test: "kinds::several_keys::memory::the_earliest_deadline_counts",
        what: "a guard of two keys is asked for the time that is left",
    },
    Elsewhere {
        bug: "KeptTokenStays",
        program: "behaviour",
        test: "store::conformance::redis",
        what: "a renewal arrives after the release of a lock that is kept",
    },
    Elsewhere {
        bug: "KeptShareStays",
        program: "behaviour",
        test: "store::conformance::redis",
        what: "a renewal arrives after the release of a share that is kept",
    },
    Elsewhere {
        bug: "ShareNotKept",
        program: "behaviour",
        test: "store::conformance::redis",
        what: "another call wants a permit that is kept",
    },
    Elsewhere {
        bug: "MinHoldForgotten",
        program: "behaviour",
        test: "bodies::min_hold::results::redis::the_lock_stays_after_any_result",
        what: "a function with `min_hold` ends in each way, and other calls come",
    },
    Elsewhere {
        bug: "ParkedOnBudget",
        program: "behaviour",
        test: "bodies::blocking::callers::redis::the_only_thread_of_a_runtime",
        what: "a blocking call parks the only thread of a runtime",
    },
    Elsewhere {
        bug: "PathOfThread",
        program: "behaviour",
        test: "bodies::blocking::nested::redis::another_task_on_the_thread_is_outside",
        what: "a blocking body runs another task on its thread",
    },
    Elsewhere {
        bug: "LateValueReturned",
        program: "behaviour",
        test: "bodies::blocking::losses::memory::a_lost_lease_drops_the_value",
        what: "a blocking body returns after the loss of its lease",
    },
    Elsewhere {
        bug: "LeaderGivesUp",
        program: "behaviour",
        test: "leases::leadership::a_refusing_server_is_asked_again",
        what: "a server refuses requests while a call wants to lead",
    },
    Elsewhere {
        bug: "TwoLeaders",
        program: "behaviour",
        test: "leases::leadership::postgres::there_are_never_two_leaders",
        what: "leaders return, lose their leases and are dropped",
    },
    Elsewhere {
        bug: "ReadyUnasked",
        program: "behaviour",
        test: "outages::readiness::a_full_server_is_not_ready",
        what: "a server refuses locks while a program asks if its pool is ready",
    },
    Elsewhere {
        bug: "AbsenceIgnored",
        program: "behaviour",
        test: "outages::known_outages::redis::single_tries_fail_at_once",
        what: "a call tries once while the store is known to be away",
    },
    Elsewhere {
        bug: "LazyGivesUp",
        program: "behaviour",
        test: "outages::connecting_lazily::redis::a_pool_starts_before_its_server",
        what: "a pool starts before its server",
    },
    Elsewhere {
        bug: "LoginNotRenewed",
        program: "behaviour",
        test: "outages::credentials::redis_rotates",
        what: "credentials end while their connection is open",
    },
    Elsewhere {
        bug: "CredentialsOnEngine",
        program: "behaviour",
        test: "outages::credentials::redis_rotates",
        what: "a credentials function blocks its thread for longer than a ttl",
    },
    Elsewhere {
        bug: "RepeatShortened",
        program: "behaviour",
        test: "store::conformance::redis",
        what: "several keys are taken again with the same tokens",
    },
    Elsewhere {
        bug: "DroppedCallKeepsItsPlace",
        program: "behaviour",
        test: "queueing::processes::traces::calls_that_time_out_leave_nothing",
        what: "the last waiting calls of processes are dropped",
    },
    Elsewhere {
        bug: "HandleOutlivesItsCall",
        program: "harness",
        test: "requirements::drops_in_memory",
        what: "calls are dropped whose bodies have spawned tasks",
    },
    Elsewhere {
        bug: "RevocationUnnoticed",
        program: "behaviour",
        test: "seeing::forced::redis::a_revoked_holder_is_notified_at_once",
        what: "a lock is taken away from a holder that is connected",
    },
    Elsewhere {
        bug: "RevokedIsFree",
        program: "behaviour",
        test: "seeing::forced::redis::a_revoked_guard_keeps_the_lock_for_the_grace",
        what: "a lock is taken away from a guard that is held on to",
    },
    Elsewhere {
        bug: "RevocationUnseen",
        program: "behaviour",
        test: "seeing::forced::etcd::a_revoked_holder_is_notified_at_once",
        what: "a lock is taken away from a holder whose session lives",
    },
    Elsewhere {
        bug: "GoneUnseen",
        program: "behaviour",
        test: "deployments::etcd::sessions::a_call_detects_a_removed_key",
        what: "the end of a key is asked for that is not there",
    },
    Elsewhere {
        bug: "RecordedAfterErr",
        program: "behaviour",
        test: "bodies::replay::once::redis::the_next_click_after_a_failure_runs",
        what: "a call with `replay` fails, and the next one comes",
    },
    Elsewhere {
        bug: "FunctionIgnored",
        program: "behaviour",
        test: "bodies::replay::functions::redis::each_function_has_its_own_result",
        what: "two functions keep results for one key",
    },
    Elsewhere {
        bug: "AnswerForAllFunctions",
        program: "behaviour",
        test: "bodies::replay::functions::memory::a_call_runs_after_waiting_for_another_function",
        what: "calls of two functions wait for one key",
    },
    Elsewhere {
        bug: "KeptUnread",
        program: "behaviour",
        test: "bodies::replay::values::another_variant_is_not_kept",
        what: "an untagged enum has the JSON of another variant",
    },
    Elsewhere {
        bug: "GreatestNumberCounts",
        program: "behaviour",
        test: "kinds::permits::redis::each_call_applies_its_own_number_of_permits",
        what: "calls with `permits = 3` come beside calls with `permits = 5`",
    },
    Elsewhere {
        bug: "ReplayHandedOver",
        program: "behaviour",
        test: "bodies::replay::once::redis::calls_without_replay_ignore_the_result",
        what: "a call with `replay` waits for a call without, and a result is kept",
    },
    Elsewhere {
        bug: "AdoptedTwice",
        program: "behaviour",
        test: "leases::hand_over::redis::a_handed_over_lock_is_adopted_once",
        what: "four workers adopt one lock",
    },
    Elsewhere {
        bug: "RenewedAfterHandOver",
        program: "behaviour",
        test: "leases::hand_over::redis::a_handed_over_lock_expires_without_a_worker",
        what: "a lock is handed over, and no worker adopts it",
    },
    Elsewhere {
        bug: "LostSessionUnreported",
        program: "behaviour",
        test: "deployments::etcd::sessions::a_lost_session_is_reported_to_all_holders",
        what: "the lease of a session is revoked while its locks are held",
    },
    Elsewhere {
        bug: "EndOfSessionDoubted",
        program: "leasehold",
        test: "store::session::session_tests::the_end_of_a_session_is_reported_at_once",
        what: "a session ends while its heartbeats are answered",
    },
    Elsewhere {
        bug: "SessionUnconfirmed",
        program: "behaviour",
        test: "deployments::etcd::sessions::a_session_outlasts_its_leases",
        what: "locks are taken at any time between two heartbeats of a session",
    },
    Elsewhere {
        bug: "NeverSealed",
        program: "behaviour",
        test: "deployments::etcd::sessions::a_sealed_session_creates_no_node",
        what: "a request that makes a node arrives after the node was removed",
    },
    Elsewhere {
        bug: "HeartbeatBelieved",
        program: "behaviour",
        test: "deployments::etcd::sessions::a_replaced_leader_confirms_nothing",
        what: "a leader that was stopped goes on when another one leads, and answers a heartbeat",
    },
    Elsewhere {
        bug: "OldTokenKept",
        program: "behaviour",
        test: "deployments::etcd::logins::a_new_role_ends_no_lease",
        what: "roles are added to an etcd with signed tokens while leases are held",
    },
    Elsewhere {
        bug: "FullIsRefused",
        program: "behaviour",
        test: "deployments::etcd::full::a_refused_acquire_leaves_no_node",
        what: "an etcd is full before an acquire that its quota has passed, and the caller has gone",
    },
    Elsewhere {
        bug: "ScriptsAreWhole",
        program: "behaviour",
        test: "deployments::tls_and_acl::acl::a_refused_share_blocks_no_other_call",
        what: "a user lacks a command that a script needs after it has noted a share",
    },
    Elsewhere {
        bug: "GrantedTimeReadOnce",
        program: "behaviour",
        test: "deployments::zookeeper::reconnecting::a_session_with_a_shortened_time_is_over",
        what: "a server is restarted with shorter sessions, and the holder is cut off after it has connected again",
    },
    Elsewhere {
        bug: "WatchesForgotten",
        program: "behaviour",
        test: "deployments::zookeeper::reconnecting::many_waiting_calls_survive_a_disconnect",
        what: "1,000 calls wait while their connection ends",
    },
    Elsewhere {
        bug: "ReplicasAwayForgotten",
        program: "behaviour",
        test: "deployments::replicas::all_replicas_are_those_known_to_the_sentinels",
        what: "a pool connects with `replicas=all` while one of two replicas is away",
    },
    Elsewhere {
        bug: "CallsPileUp",
        program: "behaviour",
        test: "deployments::postgres::gathering::requests_share_calls_while_the_server_is_slow",
        what: "callers come while PostgreSQL stands still",
    },
    Elsewhere {
        bug: "SearchPathTrusted",
        program: "behaviour",
        test: "deployments::postgres::hostile::a_pool_runs_no_code_of_another_role",
        what: "another role has made functions and operators in the schema `public` of PostgreSQL",
    },
    Elsewhere {
        bug: "GatheredPatiently",
        program: "behaviour",
        test: "deployments::postgres::gathering::a_renewal_does_not_wait_for_patient_calls",
        what: "a lease is renewed while two calls wait for a connection that is silent",
    },
    Elsewhere {
        bug: "PinsUnminded",
        program: "behaviour",
        test: "deployments::postgres::outliving::the_next_call_of_the_process_waits_for_the_commit",
        what: "a call ends before the transaction that has verified its lock",
    },
    Elsewhere {
        bug: "LockedRowFailsAll",
        program: "behaviour",
        test: "deployments::postgres::locked_rows::locked_rows_cost_no_other_lease",
        what: "a person locks the rows of ten of twenty leases",
    },
    Elsewhere {
        bug: "ConstantAdopted",
        program: "behaviour",
        test: "leases::hand_over::redis::a_constant_is_not_accepted_as_a_token",
        what: "a kept lock is adopted with a token of zeros",
    },
    Elsewhere {
        bug: "ForgedFenceBelieved",
        program: "behaviour",
        test: "leases::hand_over::redis::the_fence_comes_from_the_store",
        what: "a handover comes with another fence",
    },
    Elsewhere {
        bug: "RetriedTogether",
        program: "behaviour",
        test: "deployments::etcd::neighbours::a_lost_right_ends_one_lease",
        what: "a user loses the right to one of many keys that are renewed together",
    },
    Elsewhere {
        bug: "SpoiltCounterKept",
        program: "behaviour",
        test: "deployments::tls_and_acl::odd_keys::overwritten_fence_counters_are_corrected",
        what: "another client spoils the counter of fences",
    },
    Elsewhere {
        bug: "FencesInexact",
        program: "behaviour",
        test: "deployments::tls_and_acl::odd_keys::overwritten_fence_counters_are_corrected",
        what: "the counter of fences is beyond exact numbers",
    },
    Elsewhere {
        bug: "SilenceUnread",
        program: "behaviour",
        test: "store::conformance::postgres",
        what: "an answer comes while the engine and the listener of its socket are late",
    },
    Elsewhere {
        bug: "LeaseNeverEnds",
        program: "behaviour",
        test: "store::conformance::etcd",
        what: "a lease in a session is not renewed",
    },
    Elsewhere {
        bug: "NodesOfAnySession",
        program: "behaviour",
        test: "store::conformance::etcd",
        what: "another session asks for a held lock with the token of its holder",
    },
    Elsewhere {
        bug: "PlaceGivenTwice",
        program: "leasehold",
        test: "store::session::session_tests::an_abandoned_place_is_not_granted",
        what: "the removal of a place is lost, and its call asks again",
    },
    Elsewhere {
        bug: "WatchesLeft",
        program: "behaviour",
        test: "deployments::etcd::names::a_wait_leaves_no_watch_behind",
        what: "processes wait for a lock in turn",
    },
    Elsewhere {
        bug: "WatchesOfTheGivenUp",
        program: "behaviour",
        test: "deployments::etcd::faults::a_forced_release_reaches_the_holder_at_another_member",
        what: "a lock is taken away after the holder's member of etcd has stopped",
    },
    Elsewhere {
        bug: "AttemptsClose",
        program: "behaviour",
        test: "deployments::zookeeper::faults::a_failed_attempt_to_resume_a_session_ends_no_session",
        what: "an attempt to resume a session is given up",
    },
    Elsewhere {
        bug: "NamesUsedOnce",
        program: "behaviour",
        test: "deployments::etcd::names::a_lock_leaves_few_names_behind",
        what: "a lock is taken again and again",
    },
    Elsewhere {
        bug: "GivenUpSentAgain",
        program: "behaviour",
        test: "deployments::etcd::sessions::an_abandoned_request_is_not_sent_again",
        what: "a request is given up, and then its transaction meets another epoch",
    },
    Elsewhere {
        bug: "ReleasedPlaceKept",
        program: "leasehold",
        test: "store::session::session_tests::a_released_place_is_not_granted",
        what: "the answer to a release is lost, and the next call asks at once",
    },
    Elsewhere {
        bug: "NamesGivenEarly",
        program: "leasehold",
        test: "store::etcd::node_names::tests::a_node_name_is_kept_while_a_request_is_pending",
        what: "a removal of a node is answered while another request for it is under way",
    },
    Elsewhere {
        bug: "RevocationOfAnySession",
        program: "leasehold",
        test: "store::session::session_tests::a_revocation_applies_to_a_node_of_one_session",
        what: "a lock is taken away from the holder of a node that has its name in two sessions",
    },
    Elsewhere {
        bug: "RevokedPlaceKept",
        program: "leasehold",
        test: "store::session::session_tests::a_revoked_place_is_not_granted",
        what: "a place whose turn it is is taken away by force before its call asks",
    },
    Elsewhere {
        bug: "ForcedReleaseRepeated",
        program: "behaviour",
        test: "seeing::lost_answers::on_redis",
        what: "the answer to a forced release is lost, and the lock has its next holder",
    },
    Elsewhere {
        bug: "AnswersShifted",
        program: "behaviour",
        test: "connections::late_answers::a_late_answer_is_for_no_other_request",
        what: "a request of a new connection is answered after its time limit",
    },
    Elsewhere {
        bug: "LateReleaseServed",
        program: "behaviour",
        test: "seeing::lost_answers::on_redis",
        what: "a forced release is held up on its way until its caller has given up",
    },
    Elsewhere {
        bug: "RemovedUnreported",
        program: "leasehold",
        test: "store::session::look_tests::a_node_of_an_unknown_session_stays",
        what: "a lock is to be taken away, and the server refuses the message to its holder",
    },
    Elsewhere {
        bug: "FailureIsGone",
        program: "leasehold",
        test: "store::session::look_tests::a_holder_keeps_its_grace_despite_broken_connections",
        what: "a lock is taken away, and the connection breaks that waits for its holder",
    },
    Elsewhere {
        bug: "ColonUnencoded",
        program: "leasehold",
        test: "key::tests::values_cut_at_different_separators_differ",
        what: "different values are put into a key template",
    },
    Elsewhere {
        bug: "WakeUpForgotten",
        program: "models",
        test: "all_callers_are_woken_if_listeners_are_blocked",
        what: "an answer comes while a thread polls the store",
    },
    Elsewhere {
        bug: "ListenerEndUnnoticed",
        program: "models",
        test: "all_callers_are_woken_if_listeners_end",
        what: "the runtime that receives answers ends",
    },
    Elsewhere {
        bug: "KeeperSleeps",
        program: "models",
        test: "all_callers_are_woken_if_listeners_are_blocked",
        what: "the runtime that receives answers is blocked",
    },
    Elsewhere {
        bug: "GatheredForever",
        program: "models",
        test: "all_callers_are_woken_if_a_listener_reads",
        what: "two callers are notified together, and ask again",
    },
    Elsewhere {
        bug: "DeferredOvertaken",
        program: "models",
        test: "all_callers_are_woken_if_priorities_differ",
        what: "a call is given up on another thread than it began on",
    },
    Elsewhere {
        bug: "DeferredUnnoticed",
        program: "models",
        test: "all_callers_are_woken_if_priorities_differ",
        what: "a thread of low priority asks while the keeper sleeps",
    },
    Elsewhere {
        bug: "LaneNeverAgain",
        program: "leasehold",
        test: "engine::driver::lanes::tests::an_ended_listener_is_replaced",
        what: "a runtime calls after the one that received answers has ended",
    },
    Elsewhere {
        bug: "NoTakeOver",
        program: "leasehold",
        test: "engine::driver::lanes::tests::the_keeper_replaces_a_listener_late_twice_in_a_row",
        what: "the runtime that receives answers is blocked for long",
    },
];

impl Elsewhere {
    /// Returns the bug as a row of the table in `tests/seeded_bugs.md`.
    pub fn row(&self) -> String {
        let Self {
            bug,
            program,
            test,
            what,
        } = self;
        format!("| `{bug}` | `{program}`: `{test}` | {what} |")
    }
}
