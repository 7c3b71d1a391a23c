//! Generates the library call that runs the body.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;

use crate::check::LockSpec;
use crate::tokens::here;

/// Returns the code that runs the body. An async body stays a variable of the annotated function,
/// and the library's call gets only a reference to it. Two kinds of body are moved into this call:
/// a detached body, and a body that is not async, which is wrapped in a closure.
pub(crate) fn run(spec: &LockSpec, body: &TokenStream) -> TokenStream {
    // Some options require that the body or its result implements a trait. With the option's span,
    // rustc reports a missing trait at the option.
    let method = |name: &str, option: Span| Ident::new(name, here().located_at(option));
    let cooldown = spec.cooldown.as_ref().map(|cooldown| cooldown.span);
    let replay = spec.replay.as_ref().map(|replay| replay.span);
    let blocks = spec.target.blocks;
    let run = match (spec.detach, cooldown, replay) {
        (_, None, None) if blocks => method("run_blocking", here()),
        (_, _, Some(replay)) if blocks => method("run_blocking_replaying", replay),
        (_, Some(cooldown), None) if blocks => method("run_blocking_with_cooldown", cooldown),
        (None, None, None) => method("run", here()),
        (None, _, Some(replay)) => method("run_replaying", replay),
        (None, Some(cooldown), None) => method("run_with_cooldown", cooldown),
        (Some(detach), None, None) => method("run_detached", detach),
        (Some(detach), _, Some(_)) => method("run_detached_replaying", detach),
        (Some(detach), Some(_), None) => method("run_detached_with_cooldown", detach),
    };
    let hint = cooldown
        .or(replay)
        .map(|_| quote_spanned!(here()=> , __leasehold::hint));
    if blocks {
        // The closure is written directly as the argument, not as a variable. rustc then infers
        // from the called function that the closure runs once.
        return quote_spanned! {here()=>
            let __leasehold_out = __leasehold_call.#run(#body #hint);
        };
    }
    let body = if spec.detach.is_some() {
        body.clone()
    } else {
        quote_spanned! {here()=>
            __leasehold::core::pin::pin!(
                __leasehold::core::option::Option::Some(#body)
            )
        }
    };
    quote_spanned! {here()=>
        let __leasehold_body = #body;
        let __leasehold_out = __leasehold_call.#run(__leasehold_body #hint).await;
    }
}
