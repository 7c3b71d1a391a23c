//! The user pages, from the folder `docs/` of the repository.
//!
//! # In the repository
//!
//! The following pages describe the code of leasehold itself, and exist only in its repository.
//!
//! | page | content |
//! |---|---|
//! | `CONTRIBUTING.md` | how to run everything, and where things are |
//! | `docs/README.md` | the index of all pages and examples |
//! | `docs/architecture.md` | a call's way through the code, and the contents of each folder |
//! | `SECURITY.md` | how to report a weakness; who can refuse, forge or free a lock |
//! | `docs/glossary.md` | the terms that the code uses in its own sense |
//! | `docs/notes/compile-time.md` | the cost of compiling the crate and an annotated function |
//! | `docs/notes/delifeq.md` | why locks are not removed by `DELIFEQ` or `DELEX` |
//! | `docs/notes/performance.md` | the limits of earlier engines |
//! | `docs/notes/questions.md` | twenty questions about the code |
//! | `docs/releasing.md` | how a version is released |
//! | `docs/reliability/errors.md` | which errors leave the outcome of a request open |
//! | `cli/tests/command/run/inherited_state.md` | what a command of `leasehold run` inherits |
//! | `tests/harness.md` | how the fault harness tests the promises, and how it is tested itself |
//! | `tests/promises.txt` | the tests of each promise on each store |
//! | `examples/services` | nine services that use the attribute, small enough to copy |

// Each page ends with link definitions, whose addresses are relative to the page. Rustdoc has other
// addresses. So `links.md` comes before each page and defines the same labels, and the first
// definition of a label counts. `tests/tests/docs/rendered.rs` compares both sets of definitions.
macro_rules! pages {
    ($($(#[$attribute:meta])* $name:ident: $file:literal,)+) => {
        $(
            $(#[$attribute])*
            #[doc = include_str!("guide/links.md")]
            #[doc = include_str!(concat!("../docs/", $file))]
            #[allow(rustdoc::invalid_rust_codeblocks, reason = "a page may show a part of a function")]
            pub mod $name {}
        )+
    };
}

pages! {
    attribute: "attribute.md",
    errors: "errors.md",
    stores: "stores/README.md",
    redis: "stores/redis.md",
    sentinel: "stores/sentinel.md",
    zookeeper: "stores/zookeeper.md",
    cluster: "stores/cluster.md",
    redlock: "stores/redlock.md",
    durations: "durations.md",
    etcd: "stores/etcd.md",
    postgres: "stores/postgres.md",
    command: "command.md",
    production: "production.md",
    platforms: "platforms.md",
    monitoring: "monitoring/README.md",
    seeing: "seeing.md",
    troubleshooting: "troubleshooting.md",
    comparison: "comparison.md",
    // The code on this page needs the web frameworks, so the package of the tests compiles it.
    #[cfg(not(doctest))]
    frameworks: "frameworks.md",
    recipes: "recipes.md",
    testing: "testing.md",
    // The same, with the feature `replay`.
    #[cfg(not(doctest))]
    replay: "replay.md",
    promises: "reliability/promises.md",
    reliability_results: "reliability/results.md",
    performance_results: "performance/results.md",
}
