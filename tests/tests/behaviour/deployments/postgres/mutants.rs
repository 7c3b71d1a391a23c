//! Bugs in the SQL. Each test here runs another test with one of these bugs, and fails if that test
//! does not detect the bug.

use leasehold_tests::postgres::mutants::fails_with;

const CONFORMANCE: &str = "store::conformance::postgres";

const BATCHES: &str = "batches::a_batch_has_the_same_results_as_single_requests";

const SNAPSHOTS: &str = "verifying::snapshots_are_refused_after_calls_with_several_keys";

/// Returns the name of a test in this folder.
fn of(test: &str) -> String {
    format!("deployments::postgres::{test}")
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn verify_pins_nothing() {
    let test = of("verifying::a_verified_lock_waits_for_the_transaction");
    fails_with("VerifyKeepsNothing", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn verify_pins_nothing_under_load() {
    let test = of("exact_commits::no_update_is_lost");
    fails_with("VerifyKeepsNothing", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn kept_shares_verify() {
    let test = of("verifying::a_kept_share_verifies_no_fence");
    fails_with("KeptSharesVerify", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn pins_are_overtaken_by_adopters() {
    let test = of("outliving::an_adopter_waits_for_the_commit");
    fails_with("AdoptersOvertakePins", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn claims_do_not_expire() {
    let test = of("orphans::an_unclaimed_lock_is_free_after_a_second");
    fails_with("ClaimsLast", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn locked_rows_fail_whole_batches() {
    let test = of("locked_rows::a_call_skips_locked_rows");
    fails_with("LockedRowsAreNotLeftOut", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn verify_pins_nothing_of_a_dropped_call() {
    let test = of("dropped_calls::a_transaction_of_a_dropped_call_blocks_the_next_commit");
    fails_with("VerifyKeepsNothing", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn verify_blocks_renewals() {
    let test = of("verifying::a_pinned_lease_is_renewed");
    fails_with("VerifyHoldsRenewalsUp", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn pools_are_shown_as_pins() {
    let test = of("pins::a_pin_beside_a_call_of_a_pool_is_shown");
    fails_with("PoolsAreShownAsPins", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn earlier_fences_verify() {
    let test = of("verifying::only_the_latest_holder_verifies");
    fails_with("EarlierFencesVerify", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn locks_of_earlier_timelines_verify() {
    let test = of("fail_over::a_lock_from_before_a_fail_over_does_not_verify");
    fails_with("EarlierTimelinesVerify", &test);
    fails_with("ReadersOfEarlierTimelinesVerify", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn readers_pin_nothing() {
    let test = of("verifying::readers_pin_against_writers_only");
    fails_with("ReadersKeepNothing", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn pins_are_ignored() {
    let test = of("verifying::a_verified_lock_waits_for_the_transaction");
    fails_with("PinsAreNotSeen", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn readers_come_in_before_the_commit() {
    let test = of("verifying::a_downgrade_lets_readers_in_after_the_commit");
    fails_with("ReadersComeInBeforeTheCommit", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn rows_are_locked_in_any_order() {
    let test = of("deadlocks::batches_in_any_order_do_not_deadlock");
    fails_with("RowsAreLockedInAnyOrder", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn releases_need_no_token() {
    fails_with("ReleasesNeedNoToken", CONFORMANCE);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn renewals_need_no_token() {
    fails_with("RenewalsNeedNoToken", CONFORMANCE);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn renewals_compare_with_their_start_time() {
    let test = of("clock::a_renewal_delayed_beyond_the_lease_is_refused");
    fails_with("RenewalsGoByTheirBeginning", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn leases_end_with_their_beacon() {
    let test = of("beacons::a_lost_session_ends_no_lease");
    fails_with("LeasesEndWithTheirBeacon", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn waiters_without_a_beacon_are_called() {
    let test = of("beacons::a_waiter_without_a_session_is_skipped_at_once");
    fails_with("DarkWaitersAreCalled", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn holders_without_a_beacon_are_notified() {
    let test = of("beacons::a_lock_taken_from_a_holder_without_a_session_is_free_at_once");
    fails_with("DarkHoldersAreNotified", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn no_holder_is_notified() {
    let test = "seeing::forced::postgres::the_body_is_dropped_before_the_next_begins";
    fails_with("NoHolderReceives", test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn sweeps_forget_fences() {
    fails_with("SweepsForgetFences", CONFORMANCE);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn reserves_are_given_away() {
    fails_with("ReservesAreGivenAway", CONFORMANCE);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn the_queue_is_overtaken() {
    fails_with("TheQueueIsOvertaken", CONFORMANCE);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn guard_lets_earlier_fences_in() {
    let test = of("verifying::guard_lets_no_earlier_fence_in");
    fails_with("GuardLetsEarlierFencesIn", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn batches_take_pinned_locks() {
    fails_with("BatchesTakePinned", &of(BATCHES));
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn batches_lock_too_weakly() {
    fails_with("BatchesLockTooWeakly", &of(SNAPSHOTS));
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn batches_forget_ended_pins() {
    fails_with("BatchesForgetEndedPins", &of(SNAPSHOTS));
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn ended_pins_are_forgotten() {
    fails_with("EndedPinsAreForgotten", &of(SNAPSHOTS));
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn batches_overtake_the_queue() {
    fails_with("BatchesOvertakeTheQueue", &of(BATCHES));
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn batches_serve_the_last_waiter_first() {
    fails_with("BatchesServeTheLast", &of(BATCHES));
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn batches_release_in_any_order() {
    let test = of("batches::the_first_release_of_a_lock_counts");
    fails_with("BatchesReleaseInAnyOrder", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn batches_release_for_any_token() {
    fails_with("BatchesReleaseForAnyToken", &of(BATCHES));
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn batches_forget_waiters() {
    fails_with("BatchesForgetWaiters", &of(BATCHES));
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn batches_release_revoked_locks() {
    fails_with("BatchesReleaseWhatIsRevoked", &of(BATCHES));
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn batches_return_wrong_fences() {
    fails_with("BatchesReportOtherFences", &of(BATCHES));
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn batches_read_the_whole_table() {
    let test = of("batches::a_batch_reads_only_the_rows_of_its_keys");
    fails_with("BatchesReadTheWholeTable", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn revoked_shares_are_taken_again() {
    fails_with("RevokedSharesAreTakenAgain", &of(BATCHES));
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn functions_trust_the_search_path() {
    let test = of("hostile::functions_run_no_code_of_another_role");
    fails_with("TakesTrustThePath", &test);
    fails_with("SweepsTrustThePath", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn sweeps_need_an_advisory_lock() {
    let test = of("neighbours::a_role_with_only_connect_delays_nothing");
    fails_with("SweepsNeedAnAdvisoryLock", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn beacons_of_ended_sessions_stay_lit() {
    let test = of("neighbours::a_role_with_only_connect_delays_nothing");
    fails_with("EndedSessionsStayLit", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn any_session_keeps_a_beacon() {
    let test = of("neighbours::a_session_of_another_role_does_not_keep_a_beacon_lit");
    fails_with("AnySessionKeepsABeacon", &test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn guard_takes_any_fence() {
    let test = of("neighbours::a_role_with_usage_blocks_no_key");
    fails_with("GuardTakesAnyFence", &test);
}
