//! Tests of the kinds of locks: shared locks, permits, and locks on several keys.

mod bank_transfers;
mod permits;
mod several_in_one_request;
mod several_keys;
mod shared;
