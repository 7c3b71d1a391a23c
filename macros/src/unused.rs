//! Adds a use of each argument to a function whose attribute has an error. Such a function is
//! emitted without the code for the lock. If only the key uses an argument, rustc would then warn
//! that the argument is unused, which would mislead the user. An `#[allow]` would itself be an
//! error in a crate that forbids the lint.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::parse::{ParseStream, Parser as _};
use syn::{Attribute, Signature, Visibility};

use crate::shape::bindings;
use crate::tokens::{self, here};

/// Returns the function with a use of each argument at the start of its body. Returns any other
/// item unchanged.
pub(crate) fn with_arguments_used(item: &TokenStream) -> TokenStream {
    let mut all = tokens::without_invisible_group(item.clone());
    match all.pop().map(tokens::without_invisible_braces) {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => {
            let head: TokenStream = all.into_iter().collect();
            let Ok(signature) = signature.parse2(head.clone()) else {
                return item.clone();
            };
            let body = with_uses(&body, &signature);
            quote::quote!(#head #body)
        }
        _ => item.clone(),
    }
}

fn signature(input: ParseStream<'_>) -> syn::Result<Signature> {
    input.call(Attribute::parse_outer)?;
    input.parse::<Visibility>()?;
    input.parse()
}

fn with_uses(body: &Group, signature: &Signature) -> Group {
    let tokens: Vec<TokenTree> = body.stream().into_iter().collect();
    let (inner, rest) = tokens.split_at(inner_attributes(&tokens));
    let (inner, rest): (TokenStream, TokenStream) = (
        inner.iter().cloned().collect(),
        rest.iter().cloned().collect(),
    );
    let bound = bindings(signature);
    let arguments = bound.iter().filter(|binding| binding.name != "self");
    let statements = arguments.map(|binding| {
        let (ident, cfg) = (&binding.ident, &binding.cfg);
        quote_spanned!(here()=> #(#cfg)* let _ = &#ident;)
    });
    let span = body.span();
    let mut body = Group::new(
        Delimiter::Brace,
        quote::quote!(#inner #(#statements)* #rest),
    );
    body.set_span(span);
    body
}

/// Returns the number of tokens that the inner attributes (`#![…]`) at the start of a body have.
fn inner_attributes(body: &[TokenTree]) -> usize {
    let is = |token: &TokenTree, char| matches!(token, TokenTree::Punct(punct) if punct.as_char() == char);
    let attributes = body.chunks(3).take_while(|tokens| {
        matches!(tokens, [hash, mark, TokenTree::Group(_)] if is(hash, '#') && is(mark, '!'))
    });
    3 * attributes.count()
}
