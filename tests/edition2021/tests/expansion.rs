//! The cases of `leasehold-tests` in a crate of the previous edition.
#![deny(warnings)]
#![warn(rust_2021_compatibility, rust_2024_compatibility)]

#[rustfmt::skip] // They are formatted by the edition of their own crate.
#[path = "../../tests/expansion/main.rs"]
mod cases;
