//! The cases of `leasehold-tests` in a crate of the previous edition.
#![deny(warnings)]
#![warn(rust_2021_compatibility, rust_2024_compatibility)]

#[rustfmt::skip] // The edition of `leasehold-tests` determines the format of these files.
#[path = "../../tests/expansion/main.rs"]
mod cases;
