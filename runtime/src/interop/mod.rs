//! What other crates see of ours, one feature each.

#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "serde")]
mod serde;
#[cfg(feature = "tonic")]
mod tonic;
