//! Checks the compiler's message for each mistake. The expected texts belong to the toolchain of
//! `rust-toolchain.toml`. `TRYBUILD=overwrite cargo test -p leasehold-misuse` writes them again.

#[test]
fn every_mistake_is_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
