//! The user pages, from the folder `docs/` of the repository.
//!
//! | task | pages |
//! |---|---|
//! | choose options, keys and features | [`attribute`], [`durations`] |
//! | handle errors, answer clients | [`errors`], [`frameworks`] |
//! | return the first call's result to a second click | [`replay`] |
//! | copy a service | [`recipes`] |
//! | test code that locks | [`testing`] |
//! | choose a store | [`stores`]: [`redis`], [`sentinel`], [`cluster`], [`redlock`], [`postgres`], [`etcd`], [`zookeeper`] |
//! | start a service before its store; readiness; changing passwords | [`connecting`] |
//! | go to production | [`production`], [`platforms`], [`monitoring`] |
//! | see who holds a lock, and take it away | [`seeing`], [`command`] |
//! | find the cause of an error | [`troubleshooting`] |
//! | compare and evaluate | [`comparison`], [`promises`], [`reliability_results`], [`performance_results`] |
//!
//! # In the repository
//!
//! The following pages exist only in the repository. Most of them describe the code of leasehold
//! itself.
//!
//! | page | content |
//! |---|---|
//! | `docs/README.md` | the index of all pages and examples |
//! | `examples/services` | nine services that use the attribute, small enough to copy |
//! | `SECURITY.md` | how to report a weakness; who can refuse, forge or free a lock |
//! | `cli/tests/command/run/inherited_state.md` | what a command of `leasehold run` inherits |
//! | `tests/promises.txt` | the tests of each promise on each store |
//! | `CONTRIBUTING.md` | how to run everything, and where things are |
//! | `docs/architecture.md` | a call's way through the code, and the contents of each folder |
//! | `docs/glossary.md` | the terms that the code uses in its own sense |
//! | `docs/notes/compile-time.md` | the cost of compiling the crate and an annotated function |
//! | `docs/notes/performance.md` | the limits of earlier engines |
//! | `docs/notes/questions.md` | twenty questions about the code |
//! | `docs/releasing.md` | how a version is released |
//! | `docs/reliability/errors.md` | which errors leave the outcome of a request open |
//! | `tests/harness.md` | how the fault harness tests the promises, and how it is tested itself |

// Each page ends with link definitions. Their addresses are relative to the page's file, so they
// are wrong in rustdoc. `links.md` defines the same labels with the addresses in rustdoc. It comes
// before each page, because the first definition of a label counts. `pictures.md` does the same for
// pictures. It contains the pictures themselves, because rustdoc copies no files.
// `tests/tests/docs/rendered.rs` compares both files with the pages.
macro_rules! pages {
    ($($(#[$attribute:meta])* $name:ident: $file:literal,)+) => {
        $(
            $(#[$attribute])*
            #[doc = include_str!("guide/links.md")]
            #[doc = include_str!("guide/pictures.md")]
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
    connecting: "connecting.md",
    production: "production.md",
    platforms: "platforms.md",
    monitoring: "monitoring/README.md",
    seeing: "seeing.md",
    troubleshooting: "troubleshooting.md",
    comparison: "comparison.md",
    // The code on this page needs the web frameworks. So it is compiled as a doctest of the package
    // in `tests/`, which depends on them.
    #[cfg(not(doctest))]
    frameworks: "frameworks.md",
    recipes: "recipes.md",
    testing: "testing.md",
    // The code on this page needs the web frameworks and the feature `replay`. So it is compiled as
    // a doctest of the package in `tests/`, like `frameworks`.
    #[cfg(not(doctest))]
    replay: "replay.md",
    promises: "reliability/promises.md",
    reliability_results: "reliability/results.md",
    performance_results: "performance/results.md",
}
