//! Information about locks: [`info`] has the public types, and [`pattern`] selects keys for a list.

pub(crate) mod info;
pub(crate) mod pattern;
#[cfg(feature = "serde")]
mod written;
