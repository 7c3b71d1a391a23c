//! Kinds of locks: shared ones, ones with several places, and ones on several keys.

mod bank_transfers;
mod permits;
mod several_in_one_request;
mod several_keys;
mod shared;
