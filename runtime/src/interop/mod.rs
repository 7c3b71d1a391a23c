//! leasehold's types in other crates' traits, one feature each.

#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "serde")]
mod serde;
#[cfg(feature = "tonic")]
mod tonic;
