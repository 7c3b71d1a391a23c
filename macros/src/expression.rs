//! Tokens of the expressions that the user wrote in the options.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned as _;

use crate::check::LockSpec;
use crate::option::Length;
use crate::tokens::{self, here};

/// Returns an expression that the user wrote. Under `#[async_trait]`, replaces `self` with
/// `__self`.
pub(crate) fn user(spec: &LockSpec, expression: TokenStream) -> TokenStream {
    match spec.target.binding("self") {
        Some(receiver) if receiver.ident != "self" => {
            tokens::rename(expression, "self", &receiver.ident)
        }
        _ => expression,
    }
}

/// Returns `&expression` with the span of the expression, so that rustc reports a wrong type there.
pub(crate) fn borrowed(spec: &LockSpec, expression: &Expr) -> TokenStream {
    let span = here().located_at(expression.span());
    let binds_weaker = matches!(
        expression,
        Expr::Assign(_) | Expr::Binary(_) | Expr::Cast(_) | Expr::Closure(_) | Expr::Range(_)
    );
    let expression = user(spec, expression.to_token_stream());
    if binds_weaker {
        quote_spanned!(span=> &(#expression))
    } else {
        quote_spanned!(span=> &#expression)
    }
}

pub(crate) fn length(spec: &LockSpec, length: &Length) -> TokenStream {
    match length {
        Length::Millis(millis) => quote_spanned! {here()=>
            __leasehold::core::time::Duration::from_millis(#millis)
        },
        Length::Expression(expression) => {
            let length = user(spec, expression.to_token_stream());
            let is_name = matches!(**expression, Expr::Path(_));
            if is_name {
                length
            } else {
                alone(&quote_spanned!(here()=> __leasehold::core::convert::identity(#length)))
            }
        }
    }
}

/// Returns a block that drops the temporaries of a generated call. A guard of a mutex in one option
/// is then dropped before the next option is evaluated.
pub(crate) fn alone(expression: &TokenStream) -> TokenStream {
    quote_spanned!(here()=> { #expression })
}
