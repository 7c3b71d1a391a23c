//! Descriptions of the metrics, for recorders that show them.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Describes every metric to the current recorder.
pub(super) fn describe() {
    describe_histogram!(
        "leasehold_acquire_seconds",
        Unit::Seconds,
        "How long calls asked for their locks, until they got them or were refused."
    );
    describe_histogram!(
        "leasehold_held_seconds",
        Unit::Seconds,
        "How long calls held their locks."
    );
    describe_gauge!(
        "leasehold_held",
        Unit::Count,
        "How many calls of this process hold locks now."
    );
    describe_gauge!(
        "leasehold_waiting",
        Unit::Count,
        "How many calls of this process ask for locks now and have no answer yet."
    );
    describe_counter!(
        "leasehold_lost_total",
        Unit::Count,
        "How many leases were lost while a call held them."
    );
    describe_counter!(
        "leasehold_renewals_total",
        Unit::Count,
        "How many renewals of leases succeeded, found the lease lost, or failed and are tried again."
    );
    describe_histogram!(
        "leasehold_store_request_seconds",
        Unit::Seconds,
        "How long the store took to answer, from before the request was sent."
    );
    describe_gauge!(
        "leasehold_store_up",
        "Whether the store can be reached: 1, or 0."
    );
    describe_counter!(
        "leasehold_acquisitions_total",
        Unit::Count,
        "How many requests for one lock ended, by their outcome."
    );
    describe_counter!(
        "leasehold_leases_lost_total",
        Unit::Count,
        "How many leases were lost, whatever their template."
    );
    describe_counter!(
        "leasehold_releases_total",
        Unit::Count,
        "How many releases ended, and whether the store confirmed them."
    );
}
