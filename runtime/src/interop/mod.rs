//! Implementations of the traits of other crates. There is one feature for each of these crates.

#[cfg(feature = "actix")]
mod actix;
mod answer;
#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "serde")]
mod handover;
#[cfg(all(feature = "axum", feature = "replay"))]
pub(crate) mod idempotency;
#[cfg(feature = "serde")]
mod serde;
#[cfg(feature = "tonic")]
mod tonic;
