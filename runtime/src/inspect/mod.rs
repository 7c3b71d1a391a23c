//! What is told of a lock: [`info`] has the public types, and [`pattern`] chooses keys for a list.

pub(crate) mod info;
pub(crate) mod pattern;
#[cfg(feature = "serde")]
mod written;
