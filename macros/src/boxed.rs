//! Functions that return a boxed future. The methods under `#[async_trait]` arrive in this form,
//! because `#[async_trait]` on an impl always expands before the attributes of its methods.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{GenericArgument, PathArguments, ReturnType, Signature, Type};

use crate::async_trait;
use crate::deferred::Deferred;
use crate::diag::{Message, Refusal};
use crate::shape::{Binding, Frame, Returns, bindings};

/// The user's body in a function that returns a boxed future, with the parts around it.
pub(crate) struct Found {
    /// Code between the function's braces and the body, outermost first.
    pub(crate) frames: Vec<Frame>,
    pub(crate) body: Group,
    pub(crate) async_span: Span,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) returns: Returns,
    pub(crate) deferred: Option<Deferred>,
    /// True if the body's value is the value of an async block. False under `#[async_trait]`, where
    /// a `let` statement binds the value.
    pub(crate) returns_itself: bool,
}

/// Finds the async block in `{ Box::pin(async move { … }) }`, with or without a `return` before
/// `Box`. Returns `None` if the body has another form.
pub(crate) fn find(body: &Group, signature: &Signature) -> Result<Option<Found>, Refusal> {
    let Some((path, arguments)) = last_call(body.stream()) else {
        return Ok(None);
    };
    let Some((keyword, block)) = async_block(&arguments) else {
        return Ok(None);
    };
    if let Some(first) = path.statements.first() {
        let message =
            Message::new("the statements before this `Box::pin` would run without the lock");
        return Err((
            first.span(),
            message.help("move them into its `async move` block"),
        ));
    }
    let TokenTree::Group(block) = block else {
        return Ok(None);
    };
    let pinned = Frame::around(&arguments, path.function, path.end);
    let asynchronous = Frame::around(&block, keyword.tokens, TokenStream::new());
    let (returns, deferred) = output(signature);
    let mut found = Found {
        frames: vec![pinned],
        body: block.clone(),
        async_span: keyword.span,
        bindings: bindings(signature),
        returns,
        deferred,
        returns_itself: true,
    };
    found.frames.push(asynchronous);
    if let Some(inner) = async_trait::find(&block, signature) {
        found.frames.extend(inner.frames);
        found.body = inner.body;
        found.bindings = inner.bindings;
        found.returns = inner.returns;
        found.deferred = inner.deferred;
        found.returns_itself = false;
    } else {
        // The content of the async block is the user's body. The block captures only the arguments
        // that it uses.
        let bindings = found.bindings.iter_mut();
        bindings.for_each(|binding| binding.always_moves = false);
    }
    Ok(Some(found))
}

struct Call {
    /// Statements before the call.
    statements: Vec<TokenTree>,
    /// `Box::pin` or `return Box::pin`.
    function: TokenStream,
    /// The `;` after a `return`.
    end: TokenStream,
}

/// Returns the last expression of the function with its arguments, if it is `Box::pin(…)`.
fn last_call(body: TokenStream) -> Option<(Call, Group)> {
    let mut tokens: Vec<TokenTree> = body.into_iter().collect();
    let is_end =
        |token: &mut TokenTree| matches!(token, TokenTree::Punct(end) if end.as_char() == ';');
    let end = tokens.pop_if(is_end);
    let Some(TokenTree::Group(arguments)) = tokens.pop() else {
        return None;
    };
    if arguments.delimiter() != Delimiter::Parenthesis {
        return None;
    }
    let is_path = |token: &TokenTree| match token {
        TokenTree::Ident(ident) => ["std", "alloc", "boxed", "Box", "pin"]
            .iter()
            .any(|name| ident == name),
        TokenTree::Punct(punct) => punct.as_char() == ':',
        _ => false,
    };
    let start = tokens
        .iter()
        .rposition(|token| !is_path(token))
        .map_or(0, |last| last + 1);
    let path: TokenStream = tokens.drain(start..).collect();
    let is_return =
        |token: &mut TokenTree| matches!(token, TokenTree::Ident(word) if word == "return");
    let keyword = tokens.pop_if(is_return);
    let name = path.to_string().replace(' ', "");
    let known = ["Box::pin", "std::boxed::Box::pin", "alloc::boxed::Box::pin"];
    let is_value =
        known.contains(&name.trim_start_matches("::")) && (end.is_none() || keyword.is_some());
    is_value.then(|| {
        let call = Call {
            statements: tokens,
            function: keyword.into_iter().chain(path).collect(),
            end: end.into_iter().collect(),
        };
        (call, arguments)
    })
}

struct Keyword {
    tokens: TokenStream,
    span: Span,
}

/// Returns the async block, with or without `move`, if it is the only argument of the call.
fn async_block(arguments: &Group) -> Option<(Keyword, TokenTree)> {
    let mut tokens: Vec<TokenTree> = arguments.stream().into_iter().collect();
    if matches!(tokens.last(), Some(TokenTree::Punct(comma)) if comma.as_char() == ',') {
        tokens.pop();
    }
    let block = tokens.pop()?;
    let span = match tokens.as_slice() {
        [TokenTree::Ident(first), rest @ ..] if first == "async" => match rest {
            [] => first.span(),
            [TokenTree::Ident(second)] if second == "move" => first.span(),
            _ => return None,
        },
        _ => return None,
    };
    let is_block =
        matches!(&block, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
    is_block.then(|| {
        (
            Keyword {
                tokens: tokens.into_iter().collect(),
                span,
            },
            block,
        )
    })
}

/// Returns the output type of the returned future, from `Output = …` or from the parameter of
/// `BoxFuture`. Returns `_` if no output type is written. Also returns the part of this type whose
/// work begins or continues after the release of the lock.
fn output(signature: &Signature) -> (Returns, Option<Deferred>) {
    struct Output<'ast>(Option<&'ast Type>);
    impl<'ast> Visit<'ast> for Output<'ast> {
        fn visit_assoc_type(&mut self, found: &'ast syn::AssocType) {
            if found.ident == "Output" && self.0.is_none() {
                self.0 = Some(&found.ty);
            }
        }
        fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
            if let ("BoxFuture" | "LocalBoxFuture", PathArguments::AngleBracketed(arguments)) =
                (segment.ident.to_string().as_str(), &segment.arguments)
                && let Some(GenericArgument::Type(ty)) = arguments.args.last()
                && self.0.is_none()
            {
                self.0 = Some(ty);
            }
            syn::visit::visit_path_segment(self, segment);
        }
    }
    let mut output = Output(None);
    if let ReturnType::Type(_, boxed) = &signature.output {
        output.visit_type(boxed);
    }
    match output.0 {
        Some(ty) => (Returns::of(ty), Deferred::find(ty)),
        None => (Returns::Type(quote::quote!(_)), None),
    }
}
