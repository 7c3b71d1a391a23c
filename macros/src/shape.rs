//! The parts of a user's function: the code around the body (such as `Box::pin(async move { … })`),
//! the names bound by the parameters, and the return type.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use syn::spanned::Spanned as _;
use syn::visit::Visit;
use syn::{Attribute, FnArg, Pat, Signature, Type};

use crate::borrow::borrow;
use crate::kind::Kind;
use crate::tokens;

/// The tokens before and after a group, and the group's delimiters. `fill` adds the content of the
/// group.
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

    pub(crate) fn fill(&self, inside: TokenStream) -> TokenStream {
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
    /// Name that the user writes in a key: `self`, `id`.
    pub(crate) name: String,
    /// The `#[cfg]` attributes of the parameter.
    pub(crate) cfg: Vec<Attribute>,
    /// Kind of the parameter's type; `Other` if the parameter is `self` or a pattern.
    pub(crate) kind: Kind,
    /// True if the argument moves into the body even if the body does not use it. rustc does not
    /// report such arguments as unused: `self` by value, and names that begin with `_`.
    pub(crate) always_moves: bool,
}

impl Binding {
    pub(crate) fn new(ident: Ident, cfg: Vec<Attribute>) -> Self {
        let name = tokens::plain(&ident);
        let name = if name == "__self" {
            "self".to_owned()
        } else {
            name
        };
        Self {
            always_moves: name.starts_with('_'),
            ident,
            name,
            cfg,
            kind: Kind::default(),
        }
    }
}

/// Return type of the function.
pub(crate) enum Returns {
    /// `-> !`
    Never(Span),
    /// A type, with `_` instead of every `impl Trait`.
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

/// Returns the names that the parameters bind, `self` first.
pub(crate) fn bindings(signature: &Signature) -> Vec<Binding> {
    let mut all = Vec::new();
    for parameter in &signature.inputs {
        match parameter {
            FnArg::Receiver(receiver) => {
                let ident = Ident::new("self", receiver.self_token.span());
                all.push(Binding {
                    always_moves: borrow(parameter).is_none(),
                    ..Binding::new(ident, Vec::new())
                });
            }
            FnArg::Typed(parameter) => {
                let mut names = pattern(&parameter.pat, &parameter.attrs);
                if let (Pat::Ident(_), [name]) = (&*parameter.pat, names.as_mut_slice()) {
                    name.kind = Kind::of(&parameter.ty, &signature.generics);
                }
                all.extend(names);
            }
        }
    }
    all
}

/// Returns the names that a pattern binds.
pub(crate) fn pattern(pattern: &Pat, attributes: &[Attribute]) -> Vec<Binding> {
    #[derive(Default)]
    struct Names {
        all: Vec<Binding>,
        /// The `#[cfg]` attributes of the parameter and of the fields around the visited pattern.
        cfg: Vec<Attribute>,
    }
    impl Names {
        fn enter(&mut self, attributes: &[Attribute]) {
            let is_cfg = |attribute: &&Attribute| attribute.path().is_ident("cfg");
            self.cfg.extend(attributes.iter().filter(is_cfg).cloned());
        }
    }
    impl<'ast> Visit<'ast> for Names {
        fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
            let binding = Binding::new(pattern.ident.clone(), self.cfg.clone());
            self.all.push(binding);
            syn::visit::visit_pat_ident(self, pattern);
        }

        fn visit_field_pat(&mut self, field: &'ast syn::FieldPat) {
            let outside = self.cfg.len();
            self.enter(&field.attrs);
            syn::visit::visit_field_pat(self, field);
            self.cfg.truncate(outside);
        }
    }
    let mut names = Names::default();
    names.enter(attributes);
    names.visit_pat(pattern);
    names.all
}
