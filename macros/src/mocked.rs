//! Detects copies of the attribute on generated mocks. The `#[automock]` of the crate `mockall`
//! copies the attributes of a method to the items that it generates. Such a copy is an error,
//! because a mock takes no locks.

use proc_macro2::{TokenStream, TokenTree};

use crate::diag::Message;

/// Beginnings of names that mockall generates.
const PREFIXES: [&str; 2] = ["__mockall_", "__mock_Mock"];

/// True if mockall generated this item.
pub(crate) fn is_mock(item: &TokenStream) -> bool {
    let tokens: Vec<TokenTree> = item.clone().into_iter().collect();
    let of_mockall = |token: &TokenTree| match token {
        TokenTree::Ident(ident) => PREFIXES
            .iter()
            .any(|prefix| ident.to_string().starts_with(prefix)),
        TokenTree::Group(group) => is_mock(&group.stream()),
        _ => false,
    };
    tokens.iter().any(of_mockall)
}

pub(crate) fn message() -> Message {
    Message::new("`#[automock]` copies `#[distributed_lock]` to the mock, which takes no locks")
        .help("put `#[automock]` on a trait without `#[distributed_lock]`, and lock the methods of its impl")
}
