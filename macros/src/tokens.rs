//! What is done with tokens that are not parsed.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::visit_mut::VisitMut;
use syn::{Lit, LitStr, Type};

/// The identifier without `r#`.
pub(crate) fn plain(ident: &Ident) -> String {
    let text = ident.to_string();
    text.strip_prefix("r#").map_or(text.clone(), str::to_owned)
}

/// The tokens of an item, out of the invisible group that `macro_rules` puts around an `$item:item`.
pub(crate) fn without_invisible_group(item: TokenStream) -> Vec<TokenTree> {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    while let [TokenTree::Group(group)] = tokens.as_slice() {
        if group.delimiter() != Delimiter::None {
            break;
        }
        tokens = group.stream().into_iter().collect();
    }
    tokens
}

/// A body that is a `$body:block` of `macro_rules`, out of its invisible group.
pub(crate) fn without_invisible_braces(body: TokenTree) -> TokenTree {
    let TokenTree::Group(group) = &body else {
        return body;
    };
    if group.delimiter() != Delimiter::None {
        return body;
    }
    let mut inside = group.stream().into_iter();
    match (inside.next(), inside.next()) {
        (Some(only), None) => without_invisible_braces(only),
        _ => body,
    }
}

/// Whether `name` occurs anywhere, in a format string `"{name}"` too.
pub(crate) fn mentions(tokens: TokenStream, name: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => plain(&ident) == name,
        TokenTree::Group(group) => mentions(group.stream(), name),
        TokenTree::Literal(literal) => {
            let text = literal.to_string();
            text.contains(&format!("{{{name}}}")) || text.contains(&format!("{{{name}:"))
        }
        TokenTree::Punct(_) => false,
    })
}

/// The tokens with every identifier `from` as `to`.
pub(crate) fn rename(tokens: TokenStream, from: &str, to: &Ident) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Ident(ident) if ident == from => {
                Ident::new(&to.to_string(), ident.span().resolved_at(to.span())).into()
            }
            TokenTree::Group(group) => {
                let mut renamed = Group::new(group.delimiter(), rename(group.stream(), from, to));
                renamed.set_span(group.span());
                renamed.into()
            }
            other => other,
        })
        .collect()
}

/// The keyword that says what kind of item this is.
pub(crate) fn item_keyword(head: TokenStream) -> Option<(Span, String)> {
    const KINDS: [&str; 12] = [
        "struct",
        "enum",
        "union",
        "trait",
        "impl",
        "mod",
        "type",
        "const",
        "static",
        "use",
        "extern",
        "macro_rules",
    ];
    head.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if KINDS.iter().any(|kind| ident == kind) => {
            Some((ident.span(), ident.to_string()))
        }
        _ => None,
    })
}

/// The type with `_` for every `impl Trait`: it can then be written inside a body.
pub(crate) fn infer_impl_trait(ty: &Type) -> TokenStream {
    struct Infer;
    impl VisitMut for Infer {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            if let Type::ImplTrait(found) = ty {
                let span = found.impl_token.span;
                *ty = syn::parse_quote_spanned!(span=> _);
            }
            syn::visit_mut::visit_type_mut(self, ty);
        }
    }
    let mut ty = ty.clone();
    Infer.visit_type_mut(&mut ty);
    ty.into_token_stream()
}

/// All string literals.
pub(crate) fn strings(tokens: TokenStream) -> Vec<LitStr> {
    let mut found = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => found.extend(strings(group.stream())),
            TokenTree::Literal(literal) => {
                if let Lit::Str(text) = Lit::new(literal) {
                    found.push(text);
                }
            }
            _ => {}
        }
    }
    found
}

/// Whether an expression borrows `name` for certain: it does not hand it over as a whole, and calls no
/// `into_…` on it. A name that was moved away cannot be mentioned again.
pub(crate) fn borrows(tokens: TokenStream, name: &str) -> bool {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is = |index: usize, char: char| matches!(tokens.get(index), Some(TokenTree::Punct(punct)) if punct.as_char() == char);
    tokens.iter().enumerate().any(|(index, token)| match token {
        TokenTree::Ident(ident) if plain(ident) == name => {
            let behind_and = index > 0 && is(index - 1, '&');
            let consumed = matches!(
                tokens.get(index + 2),
                Some(TokenTree::Ident(method)) if method.to_string().starts_with("into")
            );
            tokens.len() == 1 || behind_and || (is(index + 1, '.') && !consumed)
        }
        TokenTree::Group(group) => {
            let in_macro = index > 0 && is(index - 1, '!');
            if in_macro {
                mentions(group.stream(), name)
            } else {
                borrows_inside(group, name)
            }
        }
        _ => false,
    })
}

/// In parentheses a name that stands alone is an argument, which is handed over.
fn borrows_inside(group: &Group, name: &str) -> bool {
    let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
    let alone = matches!(tokens.as_slice(), [TokenTree::Ident(ident)] if plain(ident) == name);
    !alone && borrows(group.stream(), name)
}
