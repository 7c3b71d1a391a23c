//! Finds the user's body in a method that `#[async_trait]` has rewritten.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::parse::discouraged::Speculative as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{FnArg, Local, Pat, Signature, Stmt, Token, Type};

use crate::borrow::borrow;
use crate::deferred::Deferred;
use crate::shape::{Binding, Frame, Returns, pattern};
use crate::tokens;

/// The user's body in the async block of a method, with the parts around it.
pub(crate) struct Inner {
    /// Code between the braces of the async block and the body, outermost first.
    pub(crate) frames: Vec<Frame>,
    pub(crate) body: Group,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) returns: Returns,
    pub(crate) deferred: Option<Deferred>,
}

/// Finds the user's body in the output of `#[async_trait]`. `#[instrument]` may have wrapped that
/// output in another async block.
pub(crate) fn find(block: &Group, signature: &Signature) -> Option<Inner> {
    signature
        .generics
        .lifetimes()
        .find(|found| found.lifetime.ident == "async_trait")?;
    read(block, signature).or_else(|| {
        let instrumented = tokens::mentions(block.stream(), "__tracing_instrument_future");
        if instrumented {
            descend(block, signature)
        } else {
            None
        }
    })
}

/// Looks for the user's body in the async blocks inside of a group, outermost first.
fn descend(group: &Group, signature: &Signature) -> Option<Inner> {
    let all: Vec<TokenTree> = group.stream().into_iter().collect();
    all.iter().enumerate().find_map(|(index, token)| {
        let TokenTree::Group(inside) = token else {
            return None;
        };
        let is_async = matches!(
            &all[..index],
            [.., TokenTree::Ident(first), TokenTree::Ident(second)]
                if first == "async" && second == "move"
        );
        let direct = if is_async {
            read(inside, signature)
        } else {
            None
        };
        let mut found = direct.or_else(|| descend(inside, signature))?;
        let before = all[..index].iter().cloned().collect();
        let after = all[index + 1..].iter().cloned().collect();
        found.frames.insert(0, Frame::around(inside, before, after));
        Some(found)
    })
}

// Reads the user's body from a block in which `#[async_trait]` has put these statements:
//
//     if let Some(__ret) = None::<R> { return __ret; }
//     let __self = self;
//     let Path(id) = { let __arg1 = __arg1; __arg1 };
//     let __ret: R = { the user's body };      // `let _: () = …` where nothing is returned
//     __ret
fn read(block: &Group, signature: &Signature) -> Option<Inner> {
    let shape = |input: ParseStream<'_>| {
        let mut before = TokenStream::new();
        let mut names = unmoved(signature);
        let owns_self = owns_self(signature);
        loop {
            let ahead = input.fork();
            if let Ok((local, body, ty)) = result(&ahead) {
                input.advance_to(&ahead);
                before.extend(local);
                let rest: TokenStream = input.parse()?;
                let after = quote::quote!(; #rest);
                let frame = Frame::around(&body, before, after);
                return Ok(Inner {
                    frames: vec![frame],
                    body,
                    bindings: names,
                    returns: Returns::of(&ty),
                    deferred: Deferred::find(&ty),
                });
            }
            let statement: Stmt = input.parse()?;
            if let Stmt::Local(local) = &statement {
                names.extend(bound(local).into_iter().map(|binding| Binding {
                    always_moves: binding.always_moves || owns_self && binding.name == "self",
                    ..binding
                }));
            }
            statement.to_tokens(&mut before);
        }
    };
    shape.parse2(block.stream()).ok()
}

/// Parses `let __ret: R = { … };`. Returns the tokens before the block, the block, and the type
/// `R`.
fn result(input: ParseStream<'_>) -> syn::Result<(TokenStream, Group, Type)> {
    let keyword: Token![let] = input.parse()?;
    let name: TokenTree = input.parse()?;
    let colon: Token![:] = input.parse()?;
    let ty: Type = input.parse()?;
    let equals: Token![=] = input.parse()?;
    let body: TokenTree = input.parse()?;
    let _semicolon: Token![;] = input.parse()?;
    let is_result = match (&name, &ty) {
        (TokenTree::Ident(name), _) if name == "__ret" => true,
        (TokenTree::Ident(name), Type::Tuple(unit)) if unit.elems.is_empty() => {
            name == "_" && input.is_empty()
        }
        _ => false,
    };
    match body {
        TokenTree::Group(body) if is_result && body.delimiter() == Delimiter::Brace => {
            Ok((quote::quote!(#keyword #name #colon #ty #equals), body, ty))
        }
        _ => Err(input.error("not the result")),
    }
}

/// Returns the names in the parameters of reference types. `#[async_trait]` binds the other
/// parameters again inside its block, by `let` statements, but not these.
fn unmoved(signature: &Signature) -> Vec<Binding> {
    let references = signature
        .inputs
        .iter()
        .filter_map(|parameter| match parameter {
            FnArg::Typed(parameter) if matches!(*parameter.ty, Type::Reference(_)) => {
                Some(parameter)
            }
            _ => None,
        });
    references
        .flat_map(|parameter| pattern(&parameter.pat, &parameter.attrs))
        .collect()
}

/// True if the method takes `self` by value.
fn owns_self(signature: &Signature) -> bool {
    let mut inputs = signature.inputs.iter();
    inputs.any(|input| matches!(input, FnArg::Receiver(_)) && borrow(input).is_none())
}

fn bound(local: &Local) -> Vec<Binding> {
    match &local.pat {
        Pat::Type(typed) => pattern(&typed.pat, &local.attrs),
        other => pattern(other, &local.attrs),
    }
}
