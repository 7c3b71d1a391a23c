//! leasehold's types in other crates' traits, one feature each.

#[cfg(feature = "actix")]
mod actix;
mod answer;
#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "serde")]
mod baggage;
#[cfg(all(feature = "axum", feature = "replay"))]
pub(crate) mod idempotency;
#[cfg(feature = "serde")]
mod serde;
#[cfg(feature = "tonic")]
mod tonic;
