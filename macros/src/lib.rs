//! The attribute of the crate `leasehold`.

mod args;
mod async_trait;
mod boxed;
mod check;
mod diag;
mod duration;
mod expand;
mod target;
mod template;
mod tokens;
mod value;

use proc_macro::TokenStream;

/// Makes an async function hold a distributed lock while it runs.
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    attribute(args.into(), &item.into()).into()
}

fn attribute(
    args: proc_macro2::TokenStream,
    item: &proc_macro2::TokenStream,
) -> proc_macro2::TokenStream {
    let diagnostics = diag::Diagnostics::new();
    let args = args::Args::parse(args, &diagnostics);
    let target = target::Target::parse(item.clone(), &diagnostics);
    let spec = check::check(args, target, &diagnostics);
    match diagnostics.finish(spec) {
        Ok(spec) => expand::expand(&spec),
        // The function first, as it was: its callers then see no second error.
        Err(errors) => quote::quote!(#item #errors),
    }
}
