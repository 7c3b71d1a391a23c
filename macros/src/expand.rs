//! Turns the checked spec into the tokens of the new function. No step can fail here. Decisions
//! that the library can make when the program runs are left to the library.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::Expr;

use crate::check::LockSpec;
use crate::expression::{alone, borrowed, length, user};
use crate::kind::Kind;
use crate::label::label;
use crate::option::{KeyArg, PoolArg, Watchdog};
use crate::run::run;
use crate::shape::{Binding, Returns};
use crate::template::{Member, Piece, Placeholder, Template};
use crate::tokens::{self, here};

// Input:
//     #[distributed_lock(key = "order:<id>", ttl = "10s", guard = lock)]
//     async fn create(id: u64) -> Result<Order, Error> { BODY }
//
// Output:
//     async fn create(id: u64) -> Result<Order, Error> {
//         use ::leasehold::__private as __leasehold;
//         static SITE: Site = Site::new("shop::create", file!(), line!(), "order:<id>", &|| ());
//         let mut call = Call::new(&SITE, { …the key… }, Duration::from_millis(10000));
//         let body = pin!(Some({
//             let lock = call.handle();
//             async move {
//                 if let Some(ret) = None::<Result<Order, Error>> { return ret; }
//                 let _ = &id;
//                 #[deny()] { BODY }
//             }
//         }));
//         let out = call.run(body).await;
//         return match out {
//             Ok(ret) => ret,
//             Err(error) => <Result<Order, Error> as FromLockError<_>>::from_lock_error(…),
//         }
//     }
//
// No lint may fire on the output, and the output must not set a lint level: `#[allow(…)]` of a lint
// that the user's crate forbids is an error. Lints skip code with the span of a macro. But the
// user's names keep their spans, so a statement with such a name has a form that no lint covers.
pub(crate) fn expand(spec: &LockSpec) -> TokenStream {
    let site = site(spec);
    let call = call(spec);
    let result = result(spec);
    let run = run(spec, &body(spec));
    // The variable of the call is `mut`, because the future that runs the call borrows it mutably.
    // A detached call is moved into its future instead.
    let mutable = spec.detach.is_none().then(|| quote_spanned!(here()=> mut));
    let call = match &spec.fingerprint {
        None => quote_spanned!(here()=> let #mutable __leasehold_call = #call;),
        Some(fingerprint) => {
            let fingerprint = borrowed(spec, fingerprint);
            quote_spanned! {here()=>
                let __leasehold_call = #call;
                let #mutable __leasehold_call = __leasehold_call.fingerprint(#fingerprint);
            }
        }
    };
    let runtime = &spec.runtime;
    spec.target.fill(quote_spanned! {here()=>
        use #runtime::__private as __leasehold;
        #site
        #call
        #run
        #result
    })
}

fn site(spec: &LockSpec) -> TokenStream {
    let (name, label) = (tokens::plain(&spec.target.name), label(&spec.keys));
    quote_spanned! {here()=>
        static __LEASEHOLD_SITE: __leasehold::Site = __leasehold::Site::new(
            __leasehold::core::concat!(__leasehold::core::module_path!(), "::", #name),
            __leasehold::core::file!(),
            __leasehold::core::line!(),
            #label,
            &|| (),
        );
    }
}

fn call(spec: &LockSpec) -> TokenStream {
    let ttl = length(spec, &spec.ttl);
    let keys = spec.keys.iter().map(|key| one_key(spec, key));
    let mut call = if let [_] = spec.keys.as_slice() {
        quote_spanned! {here()=>
            __leasehold::Call::new(&__LEASEHOLD_SITE, #(#keys)*, #ttl)
        }
    } else {
        quote_spanned! {here()=>
            __leasehold::Call::new_all(&__LEASEHOLD_SITE, [#(#keys),*], #ttl)
        }
    };
    call.extend(lengths(spec));
    call.extend(flags(spec));
    if let Some(permits) = spec.permits {
        call.extend(quote_spanned!(here()=> .permits(#permits)));
    }
    call.extend(pool(spec));
    call
}

/// Returns the method calls for the options with a length of time, such as `.wait(…)`.
fn lengths(spec: &LockSpec) -> TokenStream {
    let mut calls = TokenStream::new();
    match &spec.watchdog {
        Some(Watchdog::Every(interval)) => {
            let interval = length(spec, interval);
            calls.extend(quote_spanned!(here()=> .watchdog_every(#interval)));
        }
        Some(Watchdog::Flag) => calls.extend(quote_spanned!(here()=> .watchdog())),
        None => {}
    }
    let cooldown = spec.cooldown.as_ref().map(|cooldown| &cooldown.value);
    let replay = spec.replay.as_ref().map(|replay| &replay.value);
    for (name, value) in [
        ("max_hold", spec.max_hold.as_ref()),
        ("wait", spec.wait.as_ref()),
        ("cooldown", cooldown),
        ("min_hold", spec.min_hold.as_ref()),
        ("replay", replay),
    ] {
        if let Some(value) = value {
            let (name, value) = (Ident::new(name, here()), length(spec, value));
            calls.extend(quote_spanned!(here()=> .#name(#value)));
        }
    }
    calls
}

fn flags(spec: &LockSpec) -> TokenStream {
    let names = [
        ("reentrant", spec.reentrant),
        ("shared", spec.shared),
        ("continue_on_lost", spec.continue_on_lost),
    ];
    let calls = names.into_iter().filter(|(_, set)| *set).map(|(name, _)| {
        let name = Ident::new(name, here());
        quote_spanned!(here()=> .#name())
    });
    calls.collect()
}

fn pool(spec: &LockSpec) -> TokenStream {
    match &spec.pool {
        Some(PoolArg::Name(name)) => quote_spanned!(here()=> .pool_named(#name)),
        Some(PoolArg::Expression(pool)) => {
            let pool = borrowed(spec, pool);
            quote_spanned!(here()=> .pool(#pool))
        }
        None => TokenStream::new(),
    }
}

fn one_key(spec: &LockSpec, key: &KeyArg) -> TokenStream {
    match key {
        KeyArg::Template(template) => built_key(spec, &template.value, template.span),
        KeyArg::Expression(expression) => {
            if is_generic(spec, expression) {
                let expression = borrowed(spec, expression);
                return alone(&quote_spanned!(here()=> __leasehold::generic_key(#expression)));
            }
            let names = constant_over(spec, expression);
            let expression = borrowed(spec, expression);
            alone(&quote_spanned! {here()=>
                __leasehold::key(#expression, &[#(#names),*], __leasehold::hint)
            })
        }
    }
}

/// True if an expression is an argument whose type is a type parameter or an `impl Trait`.
fn is_generic(spec: &LockSpec, expression: &Expr) -> bool {
    let Expr::Path(path) = expression else {
        return false;
    };
    let name = path.path.get_ident();
    let binding = name.and_then(|name| spec.target.binding(&tokens::plain(name)));
    binding.is_some_and(|binding| binding.kind == Kind::Generic)
}

/// Returns the names of all arguments if the key's expression uses no argument other than `self`.
/// A constant `"order:<id>"` in such an expression is a mistake: it would be one lock for all
/// orders. So the library refuses a key with a placeholder for one of these names.
fn constant_over<'a>(spec: &'a LockSpec, expression: &Expr) -> Vec<&'a str> {
    let tokens = expression.to_token_stream();
    let names = spec.target.names();
    let depends = |name: &&str| **name != *"self" && tokens::uses(tokens.clone(), name);
    if names.iter().any(depends) {
        return Vec::new();
    }
    names
}

fn built_key(spec: &LockSpec, template: &Template, literal: Span) -> TokenStream {
    let pieces = template.pieces.iter().map(|piece| match piece {
        Piece::Text(text) => quote_spanned!(here()=> __leasehold_key.literal(#text);),
        Piece::Value(placeholder) => part(spec, placeholder, literal),
    });
    quote_spanned! {here()=> {
        let mut __leasehold_key = __leasehold::Key::new();
        #(#pieces)*
        __leasehold_key
    }}
}

fn part(spec: &LockSpec, placeholder: &Placeholder, literal: Span) -> TokenStream {
    let name = &placeholder.text;
    let value = value(spec, placeholder, literal);
    let root = spec.target.binding(&placeholder.root);
    let is_generic = root.is_some_and(|root| root.kind == Kind::Generic);
    match placeholder.path.last() {
        None if is_generic => quote_spanned! {here()=>
            __leasehold::key_part(&mut __leasehold_key, #name, #value);
        },
        // If the user writes a method as a field (`<items.len>`), rustc suggests to insert `()`
        // behind the string literal of the key, which is wrong. On the left side of an assignment,
        // rustc omits this suggestion.
        Some(Member::Field(_)) => quote_spanned! {here()=>
            *__leasehold::key_value(&mut __leasehold_key, #name, #value, __leasehold::hint) = ();
        },
        _ => quote_spanned! {here()=>
            __leasehold::key_value(&mut __leasehold_key, #name, #value, __leasehold::hint);
        },
    }
}

/// Returns a reference to the value of a placeholder, such as `&order.user_id`. Its span decides
/// where rustc shows an error: for a bare `<order>` at the argument, whose type is wrong, and for
/// `<order.user_id>` at the key.
fn value(spec: &LockSpec, placeholder: &Placeholder, literal: Span) -> TokenStream {
    if placeholder.is_constant() {
        return constant(placeholder, literal);
    }
    let Some(root) = spec.target.binding(&placeholder.root) else {
        return TokenStream::new();
    };
    if placeholder.path.is_empty() {
        let (span, ident) = (here().located_at(root.ident.span()), &root.ident);
        return quote_spanned!(span=> &#ident);
    }
    let mut ident = root.ident.clone();
    ident.set_span(literal.resolved_at(root.ident.span()));
    let (span, path) = members(placeholder, literal);
    quote_spanned!(span=> &#ident #path)
}

/// Returns a reference such as `&Self::KIND`.
fn constant(placeholder: &Placeholder, literal: Span) -> TokenStream {
    let (span, path) = members(placeholder, literal);
    let names = placeholder
        .root
        .split("::")
        .map(|name| tokens::ident(name, span));
    quote_spanned!(span=> &#(#names)::* #path)
}

/// Returns the members after the first name of a placeholder, such as `.a.0.b()`, and their span.
/// With this span, rustc shows errors at the key.
fn members(placeholder: &Placeholder, literal: Span) -> (Span, TokenStream) {
    let span = Span::call_site().located_at(literal);
    let path = placeholder.path.iter().map(|member| match member {
        Member::Field(name) => {
            let name = tokens::ident(name, span);
            quote_spanned!(span=> .#name)
        }
        Member::Index(index) => {
            let index = syn::Index {
                index: *index,
                span,
            };
            quote_spanned!(span=> .#index)
        }
        Member::Method(name) => {
            let name = tokens::ident(name, span);
            quote_spanned!(span=> .#name())
        }
    });
    (span, path.collect())
}

fn body(spec: &LockSpec) -> TokenStream {
    let edge = edge(&spec.target.returns);
    let captures = captures(spec);
    let user = user_block(spec);
    // The span of the user's `async` lets rustc report which argument was "used after move".
    // If the function is not async, the body is a closure, so that it cannot await anything.
    let mut inside = Group::new(
        Delimiter::Brace,
        quote_spanned!(here()=> #edge #(#captures)* #user),
    );
    inside.set_span(spec.target.async_span);
    let body = if spec.target.blocks {
        quote_spanned!(spec.target.async_span=> move || #inside)
    } else {
        quote_spanned!(spec.target.async_span=> async move #inside)
    };
    match &spec.guard {
        Some(name) => quote_spanned! {here()=> {
            let #name = __leasehold_call.handle();
            #body
        }},
        None => body,
    }
}

/// Returns a statement that fixes the return type of the body's async block or closure. The types
/// of `?` and `into()` in the body are then inferred as in the original function.
fn edge(returns: &Returns) -> TokenStream {
    match returns {
        Returns::Never(_) => TokenStream::new(),
        Returns::Type(ty) => quote_spanned! {here()=>
            if let __leasehold::core::option::Option::Some(__leasehold_ret) =
                __leasehold::core::option::Option::None::<#ty>
            {
                return __leasehold_ret;
            }
        },
    }
}

/// Returns statements that move whole arguments into the body, so that these are dropped before
/// the release of the lock. Otherwise the body might capture only a field of an argument, and the
/// rest would be dropped after the release.
///
/// Moves the arguments that the body, the key or the fingerprint uses, and those that
/// [always move](Binding::always_moves). Does not mention any other argument, so that rustc reports
/// it as unused. The last argument is mentioned first, because an async block drops its captures in
/// the order of their first mentions, and a function drops its last argument first.
fn captures(spec: &LockSpec) -> Vec<TokenStream> {
    let captured = |binding: &&Binding| {
        binding.always_moves
            || tokens::uses(spec.target.body.stream(), &tokens::plain(&binding.ident))
            || spec.keys.iter().any(|key| key_uses(key, &binding.name))
            || spec
                .fingerprint
                .as_ref()
                .is_some_and(|print| tokens::borrows(print.to_token_stream(), &binding.name))
    };
    let statement = |binding: &Binding| {
        let (ident, cfg) = (&binding.ident, &binding.cfg);
        if binding.name.starts_with('_') {
            // Clippy's lint `used_underscore_binding` ignores a use on the left side of an
            // assignment.
            quote_spanned!(here()=> #(#cfg)* { *__leasehold::captured(&#ident) = (); })
        } else {
            quote_spanned!(here()=> #(#cfg)* let _ = &#ident;)
        }
    };
    spec.target
        .bindings
        .iter()
        .rev()
        .filter(captured)
        .map(statement)
        .collect()
}

fn key_uses(key: &KeyArg, name: &str) -> bool {
    match key {
        KeyArg::Template(template) => template
            .value
            .placeholders()
            .any(|placeholder| placeholder.argument() == name),
        KeyArg::Expression(expression) => tokens::borrows(expression.to_token_stream(), name),
    }
}

/// Returns the body in the braces that the user wrote. The edition of the braces decides when the
/// temporaries of the last expression are dropped. Generated braces would have the edition of this
/// crate, which may differ from that of the user's crate.
///
/// rustc warns about superfluous braces around a single expression, but not about those of a block
/// with an attribute. So the block gets `#[deny()]`, which has no other effect.
fn user_block(spec: &LockSpec) -> TokenStream {
    let body = &spec.target.body;
    quote_spanned!(here()=> #[deny()] #body)
}

/// Returns the function's result for the error `__leasehold_error`. If the function's error type is
/// a type parameter, the generated code calls `From` for this parameter directly. If the parameter
/// has no `From` bound, rustc can then suggest the bound.
fn converted_error(spec: &LockSpec, ty: &TokenStream) -> TokenStream {
    if let Some(error) = &spec.target.generic_error {
        return quote_spanned! {here()=>
            __leasehold::core::result::Result::Err(
                <#error as __leasehold::core::convert::From<__leasehold::LockError>>::from(
                    __leasehold_error
                )
            )
        };
    }
    quote_spanned! {here()=>
        <#ty as __leasehold::FromLockError<_>>::from_lock_error(__leasehold_error, __leasehold::hint)
    }
}

fn result(spec: &LockSpec) -> TokenStream {
    let handler = spec.on_error.as_ref();
    let handler = handler.map(|handler| user(spec, handler.to_token_stream()));
    let ty = match &spec.target.returns {
        Returns::Type(ty) => ty,
        // Clippy's lint `implicit_return` does not allow a `return` before a call that never
        // returns.
        Returns::Never(_) => {
            return quote_spanned!(here()=> __leasehold::never(__leasehold_out, #handler));
        }
    };
    let failed = match handler {
        Some(handler) => quote_spanned! {here()=>
            __leasehold::on_error::<#ty>(#handler, __leasehold_error)
        },
        None => converted_error(spec, ty),
    };
    let keyword = (spec.target.returns_itself).then(|| quote_spanned!(here()=> return));
    quote_spanned! {here()=>
        #keyword match __leasehold_out {
            __leasehold::core::result::Result::Ok(__leasehold_ret) => __leasehold_ret,
            __leasehold::core::result::Result::Err(__leasehold_error) => #failed,
        }
    }
}
