//! Expressions that other tools accept as keys, and the template to write instead.

use quote::ToTokens as _;
use syn::{Expr, Ident, Lit};

use crate::diag::Message;
use crate::template::Template;

/// Returns the error for an expression that cannot be a key, with the text to write instead.
pub(crate) fn no_key(value: &Expr) -> Option<Message> {
    match value {
        Expr::Paren(inside) => no_key(&inside.expr),
        Expr::Tuple(parts) => Some(Message::new("a tuple cannot be a key").help(format!(
            "for one key of several values write a template, `key = \"{}\"`; for several keys \
             write an array, `key = [a, b]`",
            joined(parts).unwrap_or_else(|| "<a>:<b>".to_owned())
        ))),
        Expr::Closure(_) => Some(Message::new("`key` must be a value, not a function").help(
            "the arguments can be used directly: write the closure's body, or a template such as \
             \"order:<id>\"",
        )),
        Expr::Binary(sum) => concatenation(sum),
        _ => None,
    }
}

/// Returns `("order", id)` as `order:<id>`, if a template can contain each part.
fn joined(parts: &syn::ExprTuple) -> Option<String> {
    let part = |part: &Expr| match part {
        Expr::Lit(syn::ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.value()),
        Expr::Reference(value) => placeholder(&value.expr),
        value => placeholder(value),
    };
    let parts: Vec<String> = parts.elems.iter().map(part).collect::<Option<_>>()?;
    let text = parts.join(":");
    Template::parse(&text).is_ok().then_some(text)
}

fn placeholder(value: &Expr) -> Option<String> {
    let text = format!("<{}>", value.to_token_stream().to_string().replace(' ', ""));
    Template::parse(&text).is_ok().then_some(text)
}

/// Returns the error for `"order:" + id`.
fn concatenation(sum: &syn::ExprBinary) -> Option<Message> {
    let left = match &*sum.left {
        Expr::Binary(left) => return concatenation(left),
        Expr::Lit(syn::ExprLit {
            lit: Lit::Str(text),
            ..
        }) => text.value(),
        _ => return None,
    };
    let inserted = match &*sum.right {
        Expr::Path(path) => path.path.get_ident().map(Ident::to_string),
        _ => None,
    };
    let inserted = inserted.unwrap_or_else(|| "id".to_owned());
    Some(
        Message::new("a key cannot be built with an operator").help(format!(
            "insert the value into the template: \"{left}<{inserted}>\""
        )),
    )
}
