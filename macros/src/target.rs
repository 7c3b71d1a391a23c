//! The function under the attribute: where its body is, what it returns, and which names its
//! arguments bind. The signature is parsed; the body stays the tokens that the user wrote.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use syn::parse::{ParseStream, Parser as _};
use syn::spanned::Spanned as _;
use syn::visit::Visit;
use syn::{Attribute, FnArg, Pat, ReturnType, Signature, Type, Visibility};

use crate::borrow::{self, Borrow};
use crate::boxed;
use crate::diag::{Diagnostics, Message};
use crate::tokens;

/// An async function, taken apart so that its body can be replaced.
pub(crate) struct Target {
    /// The function's name.
    pub(crate) name: Ident,
    /// What stands around the body, outermost first: the signature, and with `#[async_trait]`
    /// `Box::pin(async move { … })`.
    pub(crate) frames: Vec<Frame>,
    /// The user's body, its braces included.
    pub(crate) body: Group,
    /// The user's `async`.
    pub(crate) async_span: Span,
    /// The names that the body can use.
    pub(crate) bindings: Vec<Binding>,
    pub(crate) returns: Returns,
    /// The parameters that borrow from the caller.
    pub(crate) borrows: Vec<Borrow>,
}

/// Tokens before and after a hole, and the delimiters of the hole.
pub(crate) struct Frame {
    pub(crate) before: TokenStream,
    pub(crate) delimiter: Delimiter,
    pub(crate) span: Span,
    pub(crate) after: TokenStream,
}

impl Frame {
    pub(crate) fn around(group: &Group, before: TokenStream, after: TokenStream) -> Self {
        Self {
            before,
            delimiter: group.delimiter(),
            span: group.span(),
            after,
        }
    }

    fn fill(&self, inside: TokenStream) -> TokenStream {
        let mut group = Group::new(self.delimiter, inside);
        group.set_span(self.span);
        let (before, after) = (&self.before, &self.after);
        quote::quote!(#before #group #after)
    }
}

/// A name that a parameter binds.
#[derive(Clone)]
pub(crate) struct Binding {
    pub(crate) ident: Ident,
    /// `self`, `id`: as the user writes it in a key.
    pub(crate) name: String,
    /// The `#[cfg]` of its parameter.
    pub(crate) cfg: Vec<Attribute>,
}

impl Binding {
    pub(crate) fn new(ident: Ident, cfg: Vec<Attribute>) -> Self {
        let name = tokens::plain(&ident);
        let name = if name == "__self" {
            "self".to_owned()
        } else {
            name
        };
        Self { ident, name, cfg }
    }
}

/// What the function returns.
pub(crate) enum Returns {
    /// `-> !`
    Never(Span),
    /// A type, with `_` in the place of every `impl Trait`.
    Type(TokenStream),
}

impl Returns {
    pub(crate) fn of(ty: &Type) -> Self {
        match ty {
            Type::Never(never) => Self::Never(never.span()),
            other => Self::Type(tokens::infer_impl_trait(other)),
        }
    }
}

impl Target {
    /// Reports why the attribute cannot stand here, or takes the function apart.
    pub(crate) fn parse(item: TokenStream, diagnostics: &Diagnostics) -> Option<Self> {
        match Item::split(item).and_then(Item::target) {
            Ok(target) => Some(target),
            Err((span, message)) => {
                diagnostics.error(span, &message);
                None
            }
        }
    }

    /// The whole item with `inside` in the place of the body.
    pub(crate) fn fill(&self, inside: TokenStream) -> TokenStream {
        self.frames
            .iter()
            .rev()
            .fold(inside, |inside, frame| frame.fill(inside))
    }

    pub(crate) fn binding(&self, name: &str) -> Option<&Binding> {
        let name = name.strip_prefix("r#").unwrap_or(name);
        self.bindings.iter().find(|binding| binding.name == name)
    }
}

pub(crate) type Refusal = (Span, Message);

/// A function item before and after the brace of its body.
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
                Message::new("this method has no body that could run inside a lock")
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
        let Some(asyncness) = self.signature.asyncness else {
            return self.boxed_target();
        };
        if let Some(constness) = self.signature.constness {
            return Err((
                constness.span(),
                Message::new("an async function cannot be `const`"),
            ));
        }
        if let Some(abi) = &self.signature.abi {
            let message = Message::new("an async function cannot be `extern`");
            return Err((
                abi.span(),
                message.help("call it from the `extern` function"),
            ));
        }
        let returns = match &self.signature.output {
            ReturnType::Type(_, ty) => Returns::of(ty),
            ReturnType::Default => {
                let span = self.signature.ident.span();
                Returns::Type(quote::quote_spanned!(span=> ()))
            }
        };
        Ok(Target {
            name: self.signature.ident.clone(),
            borrows: borrow::borrows(&self.signature),
            bindings: bindings(&self.signature),
            frames: vec![Frame::around(&self.body, self.head, TokenStream::new())],
            async_span: asyncness.span(),
            body: self.body,
            returns,
        })
    }

    /// A function that returns a boxed future: what `#[async_trait]` makes of an async method, and
    /// what people write by hand for recursion.
    fn boxed_target(self) -> Result<Target, Refusal> {
        let Some(found) = boxed::find(&self.body, &self.signature)? else {
            return Err(self.not_async());
        };
        let mut frames = vec![Frame::around(&self.body, self.head, TokenStream::new())];
        frames.extend(found.frames);
        Ok(Target {
            borrows: borrow::borrows(&self.signature),
            name: self.signature.ident,
            frames,
            body: found.body,
            async_span: found.async_span,
            bindings: found.bindings,
            returns: found.returns,
        })
    }

    fn not_async(&self) -> Refusal {
        let name = &self.signature.ident;
        let span = self.signature.fn_token.span();
        let is_test = self.attributes.iter().any(|attribute| {
            attribute
                .path()
                .segments
                .last()
                .is_some_and(|segment| segment.ident == "test")
        });
        let expanded = is_test || tokens::mentions(self.body.stream(), "block_on");
        let message = if expanded {
            Message::new(format!("`{name}` is no longer async here: an attribute above this one made it synchronous"))
                .help("put `#[distributed_lock(…)]` above `#[tokio::test]`, `#[tokio::main]` and the like")
        } else if self.signature.constness.is_some() {
            Message::new(format!("`{name}` is `const` and cannot hold a lock"))
                .help("`#[distributed_lock]` goes on an `async fn`")
        } else {
            Message::new(format!("`{name}` is not async"))
                .help(format!("make it `async fn {name}`; a lock is awaited"))
        };
        (span, message)
    }
}

fn not_a_function(head: TokenStream) -> Refusal {
    let Some((span, kind)) = tokens::item_keyword(head) else {
        let message = Message::new("`#[distributed_lock]` goes on an `async fn`");
        return (Span::call_site(), message);
    };
    let message = Message::new("`#[distributed_lock]` goes on an `async fn`");
    let message = match kind.as_str() {
        "impl" | "trait" | "mod" => {
            message.help(format!("put it on the functions in this `{kind}`"))
        }
        _ => message.help(format!("this is a `{kind}`")),
    };
    (span, message)
}

/// The names that the parameters bind, `self` first.
pub(crate) fn bindings(signature: &Signature) -> Vec<Binding> {
    let mut all = Vec::new();
    for parameter in &signature.inputs {
        match parameter {
            FnArg::Receiver(receiver) => {
                let ident = Ident::new("self", receiver.self_token.span());
                all.push(Binding::new(ident, Vec::new()));
            }
            FnArg::Typed(parameter) => all.extend(pattern(&parameter.pat, &parameter.attrs)),
        }
    }
    all
}

/// The names that a pattern binds.
pub(crate) fn pattern(pattern: &Pat, attributes: &[Attribute]) -> Vec<Binding> {
    struct Names(Vec<Ident>);
    impl<'ast> Visit<'ast> for Names {
        fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
            self.0.push(pattern.ident.clone());
            syn::visit::visit_pat_ident(self, pattern);
        }
    }
    let cfg: Vec<Attribute> = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .cloned()
        .collect();
    let mut names = Names(Vec::new());
    names.visit_pat(pattern);
    names
        .0
        .into_iter()
        .map(|ident| Binding::new(ident, cfg.clone()))
        .collect()
}
