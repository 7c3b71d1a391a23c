//! Descriptions of the metrics, for recorders that display them.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Passes the description of every metric to the current recorder.
pub(super) fn describe() {
    describe_histogram!(
        "leasehold_acquire_seconds",
        Unit::Seconds,
        "Time for which calls requested their locks, until they got them or were refused."
    );
    describe_histogram!(
        "leasehold_held_seconds",
        Unit::Seconds,
        "Time for which calls held their locks."
    );
    describe_gauge!(
        "leasehold_held",
        Unit::Count,
        "Number of calls of this process that hold locks now."
    );
    describe_gauge!(
        "leasehold_waiting",
        Unit::Count,
        "Number of calls of this process that request locks now and have no answer yet."
    );
    describe_counter!(
        "leasehold_lost_total",
        Unit::Count,
        "Number of leases that were lost while a call held them."
    );
    describe_counter!(
        "leasehold_renewals_total",
        Unit::Count,
        "Number of lease renewals that succeeded, found the lease lost, or failed and are retried."
    );
    describe_histogram!(
        "leasehold_store_request_seconds",
        Unit::Seconds,
        "Time that the store took to answer, from before the request was sent."
    );
    describe_gauge!(
        "leasehold_store_up",
        "1 if the store can be reached, otherwise 0."
    );
    describe_counter!(
        "leasehold_acquisitions_total",
        Unit::Count,
        "Number of finished requests for one lock, by outcome."
    );
    describe_counter!(
        "leasehold_leases_lost_total",
        Unit::Count,
        "Number of lost leases of all templates."
    );
    describe_counter!(
        "leasehold_releases_total",
        Unit::Count,
        "Number of finished releases, confirmed by the store or not."
    );
}
