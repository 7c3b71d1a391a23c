//! leasehold's types in other crates' traits, one feature each.

#[cfg(feature = "actix")]
mod actix;
mod answer;
#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "serde")]
mod serde;
#[cfg(feature = "tonic")]
mod tonic;
