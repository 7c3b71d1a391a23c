//! Finds arguments that borrow from the caller. A function with `detach` cannot have them, because
//! its body may outlive the caller.

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::Visit;
use syn::{FnArg, Lifetime, Pat, ReceiverKind, Signature};

use crate::tokens;

/// A parameter whose type certainly borrows from the caller.
pub(crate) struct Borrow {
    /// The name of the argument, such as `self`. `None` if the argument is a pattern.
    pub(crate) name: Option<String>,
    pub(crate) span: Span,
}

/// Returns the parameters whose written type shows a borrow. rustc itself refuses the other
/// borrows: those with a hidden lifetime in an async function, those inside type parameters, and
/// those of parameters with a `#[cfg]`, which may be off.
pub(crate) fn borrows(signature: &Signature) -> Vec<Borrow> {
    let inputs = signature.inputs.iter();
    let always = inputs.filter(|parameter| match parameter {
        FnArg::Receiver(_) => true,
        FnArg::Typed(parameter) => {
            let mut attributes = parameter.attrs.iter();
            !attributes.any(|attribute| attribute.path().is_ident("cfg"))
        }
    });
    always.filter_map(borrow).collect()
}

/// Returns the parameter if its written type shows a borrow.
pub(crate) fn borrow(parameter: &FnArg) -> Option<Borrow> {
    let mut lifetimes = Lifetimes::default();
    let (name, span) = match parameter {
        FnArg::Receiver(receiver) => {
            lifetimes.found = matches!(receiver.kind, ReceiverKind::Reference(_, None, _));
            lifetimes.visit_receiver(receiver);
            (Some("self".to_owned()), receiver.self_token.span)
        }
        FnArg::Typed(parameter) => {
            lifetimes.visit_type(&parameter.ty);
            match &*parameter.pat {
                Pat::Ident(pattern) => (Some(tokens::plain(&pattern.ident)), pattern.ident.span()),
                _ => (None, parameter.ty.span()),
            }
        }
    };
    lifetimes.found.then_some(Borrow { name, span })
}

/// Visitor that looks for a borrow from the caller: a reference without a lifetime, or a lifetime.
/// Ignores `'static`, and lifetimes that the type introduces with `for<'a>`.
#[derive(Default)]
struct Lifetimes {
    bound: Vec<Lifetime>,
    found: bool,
}

impl Lifetimes {
    fn with(&mut self, bound: Option<&syn::BoundLifetimes>, visit: impl FnOnce(&mut Self)) {
        let before = self.bound.len();
        for parameter in bound.iter().flat_map(|bound| &bound.lifetimes) {
            if let syn::GenericParam::Lifetime(parameter) = parameter {
                self.bound.push(parameter.lifetime.clone());
            }
        }
        visit(self);
        self.bound.truncate(before);
    }
}

impl<'ast> Visit<'ast> for Lifetimes {
    fn visit_type_reference(&mut self, reference: &'ast syn::TypeReference) {
        self.found |= reference.lifetime.is_none();
        syn::visit::visit_type_reference(self, reference);
    }

    fn visit_lifetime(&mut self, lifetime: &'ast Lifetime) {
        self.found |= lifetime.ident != "static" && !self.bound.contains(lifetime);
    }

    // The lifetime in `for<'a> Fn(&'a str)` is not a lifetime of the caller. It belongs to each
    // call of the closure.
    fn visit_trait_bound(&mut self, bound: &'ast syn::TraitBound) {
        self.with(bound.lifetimes.as_ref(), |this| {
            syn::visit::visit_trait_bound(this, bound);
        });
    }

    // `fn(&str)` borrows nothing.
    fn visit_type_fn_ptr(&mut self, _: &'ast syn::TypeFnPtr) {}

    // `Fn(&str)` borrows nothing either.
    fn visit_parenthesized_generic_arguments(
        &mut self,
        _: &'ast syn::ParenthesizedGenericArguments,
    ) {
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borrowing_parameters_are_recognized() {
        for (parameter, borrowed) in [
            ("a: u8", false),
            ("a: &u8", true),
            ("a: &'static str", false),
            ("a: &'a str", true),
            ("a: &'static [&'a str]", true),
            ("a: Cow<'_, str>", true),
            ("a: Cow<'static, str>", false),
            ("a: Vec<&str>", true),
            ("a: (u8, &mut u8)", true),
            ("a: fn(&str) -> &str", false),
            ("a: impl Fn(&str) -> u8", false),
            ("a: impl for<'a> Fn(&'a str) -> Cow<'a, str>", false),
            ("a: Box<dyn for<'a> Visit<'a>>", false),
            ("a: Box<dyn for<'a> Visit<'a, 'b>>", true),
            ("a: Box<dyn Display + 'a>", true),
            ("self", false),
            ("mut self", false),
            ("&self", true),
            ("&'static self", false),
            ("&mut self", true),
            ("self: Arc<Self>", false),
            ("self: &Arc<Self>", true),
            ("self: Box<Self>", false),
        ] {
            let text = format!("async fn f({parameter})");
            let signature: Signature = syn::parse_str(&text).expect("a signature");
            assert_eq!(!borrows(&signature).is_empty(), borrowed, "{parameter}");
        }
    }
}
