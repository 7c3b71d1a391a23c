//! Helpers for all other modules. They use no public types except the errors.

pub(crate) mod clock;
pub(crate) mod codes;
pub(crate) mod digits;
pub(crate) mod full_key;
pub(crate) mod id_map;
pub(crate) mod io_text;
pub(crate) mod jitter;
pub(crate) mod label;
pub(crate) mod lease_terms;
pub(crate) mod one_or_many;
pub(crate) mod outcome;
pub(crate) mod parking;
pub(crate) mod reporter;
pub(crate) mod seeded;
pub(crate) mod sync;
pub(crate) mod token;
