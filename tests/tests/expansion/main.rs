//! Functions in every shape that the attribute supports. Each function compiles without a warning,
//! even under clippy's pedantic and nursery lints. `tests/edition2021` compiles the functions in
//! edition 2021 too. Each function runs inside a lock in memory.
#![deny(warnings)]
#![warn(clippy::pedantic, clippy::nursery)]
#![warn(
    if_let_rescope,
    keyword_idents_2024,
    let_underscore_drop,
    missing_debug_implementations,
    missing_docs,
    redundant_lifetimes,
    rust_2018_idioms,
    single_use_lifetimes,
    tail_expr_drop_order,
    trivial_casts,
    trivial_numeric_casts,
    unit_bindings,
    unreachable_code,
    unused,
    unused_import_braces,
    unused_lifetimes,
    unused_qualifications,
    variant_size_differences
)]
// Clippy's `redundant_pub_crate` demands the opposite of rustc's lint `unreachable_pub`.
#![allow(clippy::redundant_pub_crate)]
// The module `forbidden` writes out each `return`, and forbids lints that only a nightly compiler
// has.
#![allow(clippy::needless_return, unknown_lints)]
#![forbid(unsafe_code)]

// The included file defines the macros `forbidden!` and `forbidden_too!`. The build script
// generates it.
include!(concat!(env!("OUT_DIR"), "/forbidden.rs"));

forbidden! { mod forbidden; }
forbidden_too! { mod forbidden_too; }

// The files `forbidden.rs` and `forbidden_too.rs` are declared again for rustfmt, which does not
// format files declared only inside macros.
#[cfg(any())]
mod forbidden;
#[cfg(any())]
mod forbidden_too;

mod support;

mod actix;
mod async_trait_arguments;
mod async_trait_default;
mod async_trait_impl;
mod async_trait_instrument;
mod async_trait_local;
mod async_trait_paths;
mod axum_handler;
mod blocking;
mod boxed_by_hand;
mod cancellation;
mod cfg_arguments;
mod crate_option;
mod drop_order;
mod durations;
mod error_types;
mod forbidden_calls;
mod free_function;
mod future_size;
mod generics;
mod guard;
mod hygiene;
mod impl_trait_argument;
mod impl_trait_return;
mod instrument;
mod items_in_the_body;
mod key_arithmetic;
mod key_constant;
mod key_constant_template;
mod key_expression;
mod key_literal_text;
mod key_template;
mod lifetimes;
mod macro_rules;
mod mut_arguments;
mod never;
mod no_prelude;
mod not_send;
mod not_sync;
mod on_error;
mod options;
mod other_attributes;
mod own_type_names;
mod owner_names;
mod patterns;
mod pool_option;
mod raw_identifiers;
mod receivers;
mod recursion;
mod rstest_cases;
mod single_expression;
mod smart_receivers;
mod spawned;
mod stacked;
mod tail_temporaries;
mod tests_with_the_attribute;
mod trait_default;
mod trait_impl;
mod underscore_arguments;
mod unit_return;
