//! Rules for options in combination with each other and with the function: one small function for
//! each rule.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::{Expr, Ident};

use crate::args::Args;
use crate::borrow::Borrow;
use crate::diag::{Diagnostics, Message};
use crate::duration;
use crate::manifest::{self, Dependency};
use crate::names::{key_expression, key_names};
use crate::option::{At, KeyArg, Length, PoolArg, Watchdog};
use crate::replay::{fingerprint_needs_replay, replay_is_alone};
use crate::shape::Returns;
use crate::target::Target;

/// The checked options and the function, as the expansion needs them.
pub(crate) struct LockSpec {
    /// The keys, at least one.
    pub(crate) keys: Vec<KeyArg>,
    pub(crate) ttl: Length,
    pub(crate) watchdog: Option<Watchdog>,
    pub(crate) max_hold: Option<Length>,
    pub(crate) wait: Option<Length>,
    pub(crate) cooldown: Option<At<Length>>,
    pub(crate) min_hold: Option<Length>,
    /// Time for which a result is kept. If the type of the result cannot be kept, rustc reports the
    /// error at the span of this option.
    pub(crate) replay: Option<At<Length>>,
    pub(crate) fingerprint: Option<Box<Expr>>,
    pub(crate) reentrant: bool,
    /// Span of the option `detach`. If the body cannot be detached, rustc reports the error there.
    pub(crate) detach: Option<Span>,
    pub(crate) shared: bool,
    pub(crate) permits: Option<u32>,
    pub(crate) continue_on_lost: bool,
    pub(crate) on_error: Option<Box<Expr>>,
    pub(crate) guard: Option<Ident>,
    pub(crate) pool: Option<PoolArg>,
    /// Path of the crate `leasehold`.
    pub(crate) runtime: TokenStream,
    pub(crate) target: Target,
}

/// Applies every rule and builds the spec.
pub(crate) fn check(
    args: Args,
    target: Option<Target>,
    place: Span,
    diagnostics: &Diagnostics,
) -> Option<LockSpec> {
    required(&args, place, diagnostics);
    let runtime = runtime(&args, place, diagnostics);
    let rules: [Rule; 8] = [
        watchdog_interval,
        max_hold_needs_watchdog,
        max_hold_covers_ttl,
        ttl_covers_min_hold,
        shared_or_permits,
        cooldown_is_exclusive,
        replay_is_alone,
        fingerprint_needs_replay,
    ];
    for rule in rules {
        rule(&args, diagnostics);
    }
    let target = target?;
    let rules: [TargetRule; 9] = [
        work_is_done,
        detach_needs_async,
        detach_owns_its_arguments,
        never_needs_on_error,
        cooldown_needs_a_result,
        replay_needs_a_result,
        guard_is_new,
        key_names,
        key_expression,
    ];
    for rule in rules {
        rule(&args, &target, diagnostics);
    }
    let value = |at: At<Length>| at.value;
    Some(LockSpec {
        keys: args.key?,
        ttl: args.ttl?.value,
        watchdog: args.watchdog.map(|watchdog| watchdog.value),
        max_hold: args.max_hold.map(value),
        wait: args.wait.map(value),
        cooldown: args.cooldown,
        min_hold: args.min_hold.map(value),
        replay: args.replay,
        fingerprint: args.fingerprint,
        reentrant: args.reentrant.is_some(),
        detach: args.detach,
        shared: args.shared.is_some(),
        permits: args.permits.map(|permits| permits.value),
        continue_on_lost: args.continue_on_lost,
        on_error: args.on_error,
        guard: args.guard,
        pool: args.pool,
        runtime: runtime?,
        target,
    })
}

type Rule = fn(&Args, &Diagnostics);
type TargetRule = fn(&Args, &Target, &Diagnostics);

fn required(args: &Args, place: Span, diagnostics: &Diagnostics) {
    for (option, why, example) in [
        ("key", "what to lock", "key = \"order:<id>\""),
        (
            "ttl",
            "how long the lock outlives a holder that dies",
            "ttl = \"10s\"",
        ),
    ] {
        if !args.attempted(option) {
            let message = Message::new(format!("`{option}` is missing: {why}"));
            diagnostics.error(place, &message.help(format!("add `{example}`")));
        }
    }
}

/// Returns the path of the crate `leasehold`: the value of the option `crate`, or the dependency's
/// name in the manifest.
fn runtime(args: &Args, place: Span, diagnostics: &Diagnostics) -> Option<TokenStream> {
    if let Some(path) = &args.runtime {
        return Some(path.to_token_stream());
    }
    let here = Span::mixed_site();
    match manifest::dependency() {
        Dependency::Plain => Some(quote_spanned!(here=> ::leasehold)),
        Dependency::Renamed(name) => {
            let name = Ident::new(&name, here);
            Some(quote_spanned!(here=> ::#name))
        }
        Dependency::Missing if args.attempted("crate") => None,
        Dependency::Missing => {
            let message = Message::new("this crate has no dependency named `leasehold`").help(
                "add the path by which this crate reaches it, such as `crate = shop::leasehold`",
            );
            diagnostics.error(place, &message);
            None
        }
    }
}

/// Shortest time between renewals, in milliseconds.
const SHORTEST_INTERVAL: u64 = 10;

/// Returns the time at which the library gives a lease up, in milliseconds after the request for
/// the lease was sent. This time is the ttl minus the drift of the clocks, and minus the margin for
/// cancelling the body.
///
/// The library computes this time in nanoseconds, and accepts only shorter renewal intervals. The
/// macro knows an interval in whole milliseconds. So the macro accepts the same intervals if this
/// result is rounded up to whole milliseconds.
fn point_of_no_return(ttl: u64) -> u64 {
    let micros = ttl * 1000;
    let drift = micros / 100 + 2_000;
    let margin = (micros / 20).max(50_000).min(micros / 4);
    (micros - drift - margin).div_ceil(1000)
}

/// Returns the milliseconds of a length known at compile time, and its place in the source.
fn known(length: Option<&At<Length>>) -> Option<(u64, Span)> {
    let length = length?;
    match length.value {
        Length::Millis(millis) => Some((millis, length.span)),
        Length::Expression(_) => None,
    }
}

fn watchdog_interval(args: &Args, diagnostics: &Diagnostics) {
    let Some((ttl, _)) = known(args.ttl.as_ref()) else {
        return;
    };
    let Some(At {
        value: Watchdog::Every(Length::Millis(interval)),
        span,
    }) = args.watchdog
    else {
        return;
    };
    if interval < SHORTEST_INTERVAL {
        let message = Message::new(format!(
            "a watchdog that renews every {} only adds load to the store",
            duration::display(interval)
        ))
        .help(format!(
            "write `watchdog` alone for every {}",
            duration::display(ttl / 3)
        ));
        diagnostics.error(span, &message);
        return;
    }
    let limit = point_of_no_return(ttl);
    if interval >= limit {
        let (ttl_text, interval) = (duration::display(ttl), duration::display(interval));
        let message = Message::new(format!(
            "a watchdog that renews every {interval} is too late for a ttl of {ttl_text}: the \
             lease is given up after {}",
            duration::display(limit)
        ))
        .help(format!(
            "write `watchdog` alone for every {}",
            duration::display(ttl / 3)
        ));
        diagnostics.error(span, &message);
    }
}

fn max_hold_needs_watchdog(args: &Args, diagnostics: &Diagnostics) {
    if let (Some(max_hold), false) = (args.name_of("max_hold"), args.attempted("watchdog")) {
        let message = Message::new("`max_hold` limits a watchdog, but this lock has none").help(
            "add `watchdog`, or leave `max_hold` out: without a watchdog the ttl is the limit",
        );
        diagnostics.error(max_hold.span(), &message);
    }
}

/// Refuses a `max_hold` shorter than the ttl. Such a lock is given up before its ttl ends, so the
/// watchdog that `max_hold` requires would have no use.
fn max_hold_covers_ttl(args: &Args, diagnostics: &Diagnostics) {
    let Some((ttl, _)) = known(args.ttl.as_ref()) else {
        return;
    };
    let Some((limit, span)) = known(args.max_hold.as_ref()) else {
        return;
    };
    if limit < ttl {
        let (limit, ttl) = (duration::display(limit), duration::display(ttl));
        let message = Message::new(format!(
            "a `max_hold` of {limit} is shorter than the ttl of {ttl}"
        ))
        .help(format!(
            "raise `max_hold`, or write `ttl = \"{limit}\"` without `watchdog` and `max_hold`"
        ));
        diagnostics.error(span, &message);
    }
}

/// Refuses a `min_hold` longer than the ttl without `watchdog`. If the process died, the store
/// would unlock the key at the end of the ttl, so before the end of `min_hold`.
fn ttl_covers_min_hold(args: &Args, diagnostics: &Diagnostics) {
    let Some((ttl, _)) = known(args.ttl.as_ref()) else {
        return;
    };
    let Some((min_hold, span)) = known(args.min_hold.as_ref()) else {
        return;
    };
    if ttl < min_hold && !args.attempted("watchdog") {
        let (min_hold, ttl) = (duration::display(min_hold), duration::display(ttl));
        let message = Message::new(format!(
            "a `min_hold` of {min_hold} is longer than the ttl of {ttl}, and the lock of a dead \
             process ends with its ttl"
        ))
        .help(format!("write `ttl = \"{min_hold}\"`, or add `watchdog`"));
        diagnostics.error(span, &message);
    }
}

fn shared_or_permits(args: &Args, diagnostics: &Diagnostics) {
    if let (Some(_), Some(permits)) = (args.shared, &args.permits) {
        let message = Message::new("`shared` and `permits` cannot be combined").help(
            "`shared` is for many readers or one writer, `permits` for a fixed number of holders",
        );
        diagnostics.error(permits.span, &message);
    }
}

/// Refuses `cooldown` for shares and permits. A kept share would keep out writers, and a kept
/// permit would keep out another holder, for no benefit.
fn cooldown_is_exclusive(args: &Args, diagnostics: &Diagnostics) {
    let permits = args.permits.as_ref().map(|permits| permits.span);
    for (option, span) in [("shared", args.shared), ("permits", permits)] {
        if let (Some(span), Some(_)) = (span, &args.cooldown) {
            let message = Message::new(format!("`cooldown` and `{option}` cannot be combined"))
                .help("`cooldown` keeps the whole lock after success; leave one of them out");
            diagnostics.error(span, &message);
        }
    }
}

/// Refuses `detach` for a function that is not async. Its body runs to its end anyway, because
/// nothing can drop it.
fn detach_needs_async(args: &Args, target: &Target, diagnostics: &Diagnostics) {
    if let (Some(detach), true) = (args.detach, target.blocks) {
        let name = &target.name;
        let message = Message::new(format!(
            "`detach` is for async functions: the body of `{name}` always runs to its end"
        ));
        diagnostics.error(detach, &message.help("leave `detach` out"));
    }
}

fn detach_owns_its_arguments(args: &Args, target: &Target, diagnostics: &Diagnostics) {
    if args.detach.is_none() || target.blocks {
        return;
    }
    for Borrow { name, span } in &target.borrows {
        let (what, help) = match name.as_deref() {
            Some("self") => (
                "`self`".to_owned(),
                "take `self: Arc<Self>`, or detach a function that takes what it needs by value",
            ),
            name => (
                name.map_or_else(|| "this argument".to_owned(), |name| format!("`{name}`")),
                "take it by value, such as `String` for `&str`, or share it as an `Arc`",
            ),
        };
        let message = Message::new(format!(
            "a detached body can outlive its caller, but {what} is borrowed from the caller"
        ));
        diagnostics.error(*span, &message.help(help));
    }
}

fn work_is_done(_: &Args, target: &Target, diagnostics: &Diagnostics) {
    if let Some(deferred) = &target.deferred {
        diagnostics.error(deferred.span, &deferred.message());
    }
}

fn never_needs_on_error(args: &Args, target: &Target, diagnostics: &Diagnostics) {
    if let (Returns::Never(span), false) = (&target.returns, args.attempted("on_error")) {
        let message = Message::new(
            "taking the lock can fail, but a function that never returns cannot report it",
        )
        .help("return a `Result` whose error is `From<leasehold::LockError>`, or add `on_error = |error| …`");
        diagnostics.error(*span, &message);
    }
    if let (Returns::Type(ty), false) = (&target.returns, args.attempted("on_error"))
        && ty.to_string().replace(' ', "") == "()"
    {
        let message = Message::new(
            "taking the lock can fail, but a function that returns nothing cannot report it",
        )
        .help("return `Result<(), leasehold::LockError>`, or add `on_error = drop`, which ignores the error");
        let place = ty.clone().into_iter().next();
        let span = place.map_or_else(|| target.name.span(), |token| token.span());
        diagnostics.error(span, &message);
    }
}

fn cooldown_needs_a_result(args: &Args, target: &Target, diagnostics: &Diagnostics) {
    needs_a_result("cooldown", "keeps the lock", args, target, diagnostics);
}

fn needs_a_result(
    option: &str,
    does: &str,
    args: &Args,
    target: &Target,
    diagnostics: &Diagnostics,
) {
    let Some(name) = args.name_of(option) else {
        return;
    };
    let plain = match &target.returns {
        Returns::Never(_) => true,
        Returns::Type(ty) => is_plain(&ty.to_string().replace(' ', "")),
    };
    if plain {
        let what =
            format!("`{option}` {does} after `Ok`, but this function does not return a `Result`");
        let help = format!("return a `Result`, or leave `{option}` out");
        diagnostics.error(name.span(), &Message::new(what).help(help));
    }
}

/// True if the type is certainly not a `Result`. False for a type alias, which may stand for one.
fn is_plain(ty: &str) -> bool {
    const PLAIN: [&str; 17] = [
        "()", "bool", "char", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32",
        "i64", "f32", "f64", "String", "&str",
    ];
    PLAIN.contains(&ty) || ty.starts_with("Option<") || ty.starts_with("Vec<")
}

fn replay_needs_a_result(args: &Args, target: &Target, diagnostics: &Diagnostics) {
    needs_a_result("replay", "keeps the result", args, target, diagnostics);
}

fn guard_is_new(args: &Args, target: &Target, diagnostics: &Diagnostics) {
    let Some(guard) = &args.guard else {
        return;
    };
    let name = guard.to_string();
    if target.binding(&name).is_some() {
        let free = ["lock", "lease", "lock_handle"];
        let free = free.iter().find(|free| target.binding(free).is_none());
        let free = free.unwrap_or(&"the_lock");
        let message = Message::new(format!("`guard = {name}` would hide the argument `{name}`"))
            .help(format!("choose another name, such as `guard = {free}`"));
        diagnostics.error(guard.span(), &message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_renewal_time_is_computed() {
        for (ttl, after) in [
            (100, 100 - 3 - 25),
            (200, 200 - 4 - 50),
            (1_000, 1_000 - 12 - 50),
            (10_000, 10_000 - 102 - 500),
            (86_400_000, 86_400_000 - 864_002 - 4_320_000),
        ] {
            assert_eq!(point_of_no_return(ttl), after, "{ttl}");
        }
    }

    /// Fails if the macro's limit for intervals of `watchdog` differs from the library's limit.
    /// This test computes the library's limit in nanoseconds, with a copy of the library's formula.
    #[test]
    fn the_macro_and_the_runtime_accept_the_same_intervals() {
        const MILLI: u64 = 1_000_000;
        for ttl in 100..=5_000 {
            let nanos = ttl * MILLI;
            let drift = nanos / 100 + 2 * MILLI;
            let margin = (nanos / 20).max(50 * MILLI).min(nanos / 4);
            let latest = nanos - drift - margin;
            let limit = point_of_no_return(ttl);
            assert!(limit * MILLI >= latest, "{limit} ms is too late for {ttl}");
            assert!(
                (limit - 1) * MILLI < latest,
                "{limit} - 1 ms does for {ttl}"
            );
        }
    }
}
