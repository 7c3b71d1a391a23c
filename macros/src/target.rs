//! The function under the attribute: the place of its body, its return type, and the names of its
//! arguments. The signature is parsed; the body keeps the user's tokens.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use syn::parse::{ParseStream, Parser as _};
use syn::spanned::Spanned as _;
use syn::{Attribute, PathSegment, ReturnType, Signature, Type, Visibility};

use crate::borrow::{self, Borrow};
use crate::boxed::{self, Found};
use crate::deferred::Deferred;
use crate::diag::{Diagnostics, Message, Refusal};
use crate::kind;
use crate::shape::{Binding, Frame, Returns, bindings};
use crate::tokens;

/// The parts of a function, so that its body can be replaced.
pub(crate) struct Target {
    pub(crate) name: Ident,
    /// Code around the body, outermost first: the signature, and with `#[async_trait]` also
    /// `Box::pin(async move { … })`.
    pub(crate) frames: Vec<Frame>,
    /// The user's body, including its braces.
    pub(crate) body: Group,
    /// Span of the user's `async`, or of `fn` if the function is not async.
    pub(crate) async_span: Span,
    /// True if the function is not async. A call of the function then parks the caller's thread.
    pub(crate) blocks: bool,
    /// Names that the parameters bind for the body.
    pub(crate) bindings: Vec<Binding>,
    pub(crate) returns: Returns,
    /// Part of the return type, such as a stream, whose work begins or continues after the release
    /// of the lock.
    pub(crate) deferred: Option<Deferred>,
    /// True if the body's value is the value of a function or an `async` block. False under
    /// `#[async_trait]`, where a `let` statement binds the value.
    pub(crate) returns_itself: bool,
    /// Error type of the function, if it is a type parameter.
    pub(crate) generic_error: Option<Type>,
    /// Parameters that borrow from the caller.
    pub(crate) borrows: Vec<Borrow>,
}

impl Target {
    /// Splits the function into its parts, or reports why the function cannot have the attribute.
    pub(crate) fn parse(item: TokenStream, diagnostics: &Diagnostics) -> Option<Self> {
        match Item::split(item).and_then(Item::target) {
            Ok(target) => Some(target),
            Err((span, message)) => {
                diagnostics.error(span, &message);
                None
            }
        }
    }

    /// Returns the whole item with `inside` instead of the body.
    pub(crate) fn fill(&self, inside: TokenStream) -> TokenStream {
        self.frames
            .iter()
            .rev()
            .fold(inside, |inside, frame| frame.fill(inside))
    }

    /// Returns the names of the arguments that a key can insert, including `self`. Leaves out names
    /// that begin with `__`, because other macros generated them.
    pub(crate) fn names(&self) -> Vec<&str> {
        let names = self.bindings.iter().map(|binding| binding.name.as_str());
        names.filter(|name| !name.starts_with("__")).collect()
    }

    pub(crate) fn binding(&self, name: &str) -> Option<&Binding> {
        let name = name.strip_prefix("r#").unwrap_or(name);
        self.bindings.iter().find(|binding| binding.name == name)
    }
}

/// A function item, split before the brace of its body.
pub(crate) struct Item {
    attributes: Vec<Attribute>,
    pub(crate) signature: Signature,
    head: TokenStream,
    body: Group,
}

impl Item {
    fn split(item: TokenStream) -> Result<Self, Refusal> {
        let mut head = tokens::without_invisible_group(item);
        let last = head.pop().map(tokens::without_invisible_braces);
        let (body, end) = match last {
            Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => {
                let end = body.span();
                (Some(body), end)
            }
            Some(other) => (None, other.span()),
            None => (None, Span::call_site()),
        };
        let head: TokenStream = head.into_iter().collect();
        let parse = |input: ParseStream<'_>| {
            let attributes = input.call(Attribute::parse_outer)?;
            let _visibility: Visibility = input.parse()?;
            Ok((attributes, input.parse::<Signature>()?))
        };
        let Ok((attributes, signature)) = parse.parse2(head.clone()) else {
            return Err(not_a_function(head));
        };
        let Some(body) = body else {
            return Err((
                end,
                Message::new("this method has no body to run inside a lock")
                    .help("put the attribute on the methods of the impls"),
            ));
        };
        Ok(Self {
            attributes,
            signature,
            head,
            body,
        })
    }

    fn target(self) -> Result<Target, Refusal> {
        let async_span = match self.signature.asyncness {
            Some(asyncness) => asyncness.span(),
            None => match boxed::find(&self.body, &self.signature)? {
                Some(found) => return Ok(self.boxed_target(found)),
                None => self.blocking_span()?,
            },
        };
        if let Some(constness) = self.signature.constness {
            let name = &self.signature.ident;
            let message = Message::new(format!("`{name}` is `const` and cannot hold a lock"));
            return Err((constness.span(), message.help("leave `const` out")));
        }
        if let Some(abi) = &self.signature.abi {
            let message =
                Message::new("`#[distributed_lock]` cannot be applied to an `extern` function");
            return Err((
                abi.span(),
                message.help("put it on a Rust function and call that from here"),
            ));
        }
        let (returns, deferred) = match &self.signature.output {
            ReturnType::Type(_, ty) => {
                let blocks = self.signature.asyncness.is_none();
                let alias = || blocks.then(|| Deferred::alias(ty)).flatten();
                (Returns::of(ty), Deferred::find(ty).or_else(alias))
            }
            ReturnType::Default => {
                let span = self.signature.ident.span();
                (Returns::Type(quote::quote_spanned!(span=> ())), None)
            }
        };
        Ok(Target {
            name: self.signature.ident.clone(),
            borrows: borrow::borrows(&self.signature),
            bindings: bindings(&self.signature),
            generic_error: kind::generic_error(&self.signature.output, &self.signature.generics),
            frames: vec![Frame::around(&self.body, self.head, TokenStream::new())],
            async_span,
            blocks: self.signature.asyncness.is_none(),
            body: self.body,
            returns,
            deferred,
            returns_itself: true,
        })
    }

    /// Splits a function that returns a boxed future: an async method under `#[async_trait]`, or a
    /// recursive function boxed by hand.
    fn boxed_target(self, found: Found) -> Target {
        let mut frames = vec![Frame::around(&self.body, self.head, TokenStream::new())];
        frames.extend(found.frames);
        Target {
            borrows: borrow::borrows(&self.signature),
            name: self.signature.ident,
            frames,
            body: found.body,
            async_span: found.async_span,
            blocks: false,
            bindings: found.bindings,
            returns: found.returns,
            deferred: found.deferred,
            returns_itself: found.returns_itself,
            generic_error: None,
        }
    }

    /// Returns the span of the `fn` of a function that is not async. Refuses an async function that
    /// an attribute above this one has made synchronous.
    fn blocking_span(&self) -> Result<Span, Refusal> {
        let span = self.signature.fn_token.span();
        if !self.was_async() {
            return Ok(span);
        }
        let name = &self.signature.ident;
        let message = Message::new(format!(
            "`{name}` is no longer async here: an attribute above this one made it synchronous"
        ));
        let help = if name == "main" {
            "lock a function that `main` calls after `leasehold::init`"
        } else {
            "put `#[distributed_lock(…)]` above `#[tokio::test]` and similar attributes"
        };
        Err((span, message.help(help)))
    }

    /// True if another attribute, such as `#[tokio::main]`, has put the body of an async function
    /// into a `block_on`. The signs are the attribute `#[::core::prelude::v1::test]`, or a
    /// `block_on` in `main` or in a body that begins with `let body = async`. Any other `block_on`
    /// is the user's own.
    fn was_async(&self) -> bool {
        let is_generated_test = |attribute: &Attribute| {
            let segments = &attribute.path().segments;
            let is_standard = |first: &PathSegment| first.ident == "core" || first.ident == "std";
            1 < segments.len()
                && segments.first().is_some_and(is_standard)
                && segments.last().is_some_and(|last| last.ident == "test")
        };
        let mut start = self
            .body
            .stream()
            .into_iter()
            .map(|token| token.to_string());
        let starts_a_block = ["let", "body", "=", "async"]
            .iter()
            .all(|word| start.next().as_deref() == Some(word));
        let blocks = || tokens::mentions(self.body.stream(), "block_on");
        self.attributes.iter().any(is_generated_test)
            || (self.signature.ident == "main" || starts_a_block) && blocks()
    }
}

fn not_a_function(head: TokenStream) -> Refusal {
    let Some((span, kind)) = tokens::item_keyword(head) else {
        let message = Message::new("`#[distributed_lock]` can only be applied to a function");
        return (Span::call_site(), message);
    };
    let message = Message::new("`#[distributed_lock]` can only be applied to a function");
    let message = match kind.as_str() {
        "impl" | "trait" | "mod" => {
            message.help(format!("put it on the functions in this `{kind}`"))
        }
        _ => message.help(format!("this is a `{kind}`")),
    };
    (span, message)
}
