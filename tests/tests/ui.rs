//! What the compiler says about each mistake. The expected texts belong to the toolchain of
//! `rust-toolchain.toml`. `TRYBUILD=overwrite cargo test -p leasehold-tests --test ui` writes them
//! anew.

#[test]
fn every_mistake_is_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
