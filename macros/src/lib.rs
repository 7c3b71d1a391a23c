//! The attribute of the crate `leasehold`; use it through that crate.
//!
//! ```text
//! tokens ─▶ args, target ─▶ check ─▶ expand ─▶ tokens
//!              └─ diag: all errors together, emitted after the original function
//! ```

mod args;
mod async_trait;
mod borrow;
mod boxed;
mod check;
mod deferred;
mod diag;
mod duration;
mod elsewhere;
mod expand;
mod expression;
mod habit;
mod kind;
mod label;
mod manifest;
mod mocked;
mod names;
mod no_key;
mod option;
mod printf;
mod raw;
mod replay;
mod run;
mod shape;
mod target;
mod template;
mod tokens;
mod unused;
mod value;

#[cfg(test)]
mod snapshots;

use proc_macro::TokenStream;

// The examples in `attribute.md` need the crate `leasehold`. So the doc tests of this crate leave
// them out, and the crate `leasehold-tests` runs them.
#[cfg_attr(not(doctest), doc = include_str!("attribute.md"))]
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    attribute(args.into(), &item.into()).into()
}

fn attribute(
    args: proc_macro2::TokenStream,
    item: &proc_macro2::TokenStream,
) -> proc_macro2::TokenStream {
    let diagnostics = diag::Diagnostics::new();
    let place = tokens::attribute_span(item);
    let spec = if mocked::is_mock(item) {
        diagnostics.error(place, &mocked::message());
        None
    } else {
        let args = args::Args::parse(args, &diagnostics);
        let target = target::Target::parse(item.clone(), &diagnostics);
        check::check(args, target, place, &diagnostics)
    };
    match diagnostics.finish(spec) {
        Ok(spec) => expand::expand(&spec),
        // The function is still emitted. Without it, rustc would also report an error for each of
        // its callers.
        Err(errors) => {
            let item = unused::with_arguments_used(item);
            quote::quote!(#item #errors)
        }
    }
}
