//! Parsers for the values of the options: one small function for each option.

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::{Expr, Ident, Lit, LitStr};

use crate::diag::{Message, closest};
use crate::duration;
use crate::no_key::no_key;
use crate::option::{At, KeyArg, Length, PoolArg, Problem, Watchdog};
use crate::raw::{self, RawOption};
use crate::template::Template;

const MIN_TTL: u64 = 100;
const MAX_TTL: u64 = 24 * 3_600_000;
const MAX_REPLAY: u64 = 30 * 24 * 3_600_000;

/// Maximum number of keys in one call. The crate `leasehold` has the same limit.
const MAX_KEYS: usize = 16;

/// Parses a template, an expression, or an array of templates and expressions.
pub(crate) fn key(option: &RawOption) -> Result<Vec<KeyArg>, Problem> {
    match required(option, "key = \"order:<id>\"")? {
        Expr::Array(array) => keys(array),
        one => one_key(one).map(|key| vec![key]),
    }
}

fn keys(array: &syn::ExprArray) -> Result<Vec<KeyArg>, Problem> {
    let count = array.elems.len();
    if count == 0 {
        let message = Message::new("this array has no keys")
            .help("name what is locked: `key = [\"account:<from>\", \"account:<to>\"]`");
        return Err(Problem::new(array.span(), message));
    }
    if count > MAX_KEYS {
        let what = format!("one call locks at most {MAX_KEYS} keys, but this array has {count}");
        let message = Message::new(what).help("lock one key that stands for all of them");
        return Err(Problem::new(array.span(), message));
    }
    let (mut keys, mut errors) = (Vec::with_capacity(count), Vec::new());
    for element in &array.elems {
        match one_key(&raw::peel(element.clone())) {
            Ok(key) => {
                errors.extend(twice(&keys, &key));
                keys.push(key);
            }
            Err(Problem::Value(messages)) => errors.extend(messages),
            Err(Problem::Name) => {}
        }
    }
    if errors.is_empty() {
        Ok(keys)
    } else {
        Err(Problem::Value(errors))
    }
}

/// Reports a template that occurs twice in the array.
fn twice(before: &[KeyArg], key: &KeyArg) -> Option<(Span, Message)> {
    let KeyArg::Template(At { value, span }) = key else {
        return None;
    };
    let same = |other: &KeyArg| matches!(other, KeyArg::Template(other) if other.value == *value);
    before.iter().any(same).then(|| {
        let message = Message::new("this key is in the array twice");
        (
            *span,
            message.help("keep one of them; did you mean another argument?"),
        )
    })
}

fn one_key(value: &Expr) -> Result<KeyArg, Problem> {
    let Expr::Lit(syn::ExprLit {
        lit: Lit::Str(text),
        ..
    }) = value
    else {
        return match no_key(value) {
            Some(message) => Err(Problem::new(value.span(), message)),
            None => Ok(KeyArg::Expression(Box::new(value.clone()))),
        };
    };
    let span = text.span();
    if text.value().contains("format!") {
        let message = Message::new("this key is literal text, not the expression in it");
        return Err(Problem::new(
            span,
            message.help("write it without the quotes: `key = format!(…)`"),
        ));
    }
    match Template::parse(&text.value()) {
        Ok(value) => Ok(KeyArg::Template(At { value, span })),
        Err(messages) => Err(Problem::Value(
            messages
                .into_iter()
                .map(|message| (span, message))
                .collect(),
        )),
    }
}

pub(crate) fn ttl(option: &RawOption) -> Result<Length, Problem> {
    const RANGE: &str = "write a ttl from \"100ms\" to \"24h\"";
    const LIMIT: &str =
        "a ttl is at most 24h; write `ttl = \"24h\"`, or a short one with `watchdog`";
    let length = at_most(option, MAX_TTL, "a ttl", LIMIT).map_err(|problem| match problem {
        Problem::Value(messages) => Problem::Value(
            messages
                .into_iter()
                .map(|(span, message)| match duration::suggested(&message) {
                    Some(..MIN_TTL) => (span, message.help(RANGE)),
                    Some(millis) if millis > MAX_TTL => (span, message.help(LIMIT)),
                    _ => (span, message),
                })
                .collect(),
        ),
        other @ Problem::Name => other,
    })?;
    match length {
        Length::Millis(millis) if millis < MIN_TTL => {
            let what = format!("a ttl of {} is too short", duration::display(millis));
            let help = format!("{RANGE}; with a short ttl a slow network loses the lock");
            Err(Problem::new(option.span(), Message::new(what).help(help)))
        }
        length => Ok(length),
    }
}

/// Parses a duration of at most `limit`. The error begins with `name`, such as `a ttl`.
fn at_most(option: &RawOption, limit: u64, name: &str, help: &str) -> Result<Length, Problem> {
    match length(option)? {
        Length::Millis(millis) if millis > limit => {
            let what = format!("{name} of {} is too long", duration::display(millis));
            Err(Problem::new(option.span(), Message::new(what).help(help)))
        }
        length => Ok(length),
    }
}

pub(crate) fn cooldown(option: &RawOption) -> Result<Length, Problem> {
    let help = "at most 24h; to refuse later calls use a unique key in the database";
    at_most(option, MAX_TTL, "a `cooldown`", help)
}

pub(crate) fn min_hold(option: &RawOption) -> Result<Length, Problem> {
    let help = "at most 24h; a job that is due less often must record its last run in the database";
    at_most(option, MAX_TTL, "a `min_hold`", help)
}

pub(crate) fn replay(option: &RawOption) -> Result<Length, Problem> {
    let help = "at most 720h; a result that must stay longer belongs in the database";
    at_most(option, MAX_REPLAY, "a `replay`", help)
}

/// Parses the expression whose value identifies the request, such as an argument.
pub(crate) fn fingerprint(option: &RawOption) -> Result<Box<Expr>, Problem> {
    let value = required(option, "fingerprint = cart")?;
    let what = match value {
        Expr::Lit(_) => "this fingerprint is the same for every call",
        Expr::Closure(_) => "`fingerprint` must be a value, not a function",
        _ => return Ok(Box::new(value.clone())),
    };
    let help = "name an argument, such as `fingerprint = cart`, or several: `fingerprint = (&cart, currency)`";
    Err(Problem::new(value.span(), Message::new(what).help(help)))
}

/// Parses `watchdog`, with or without an interval.
pub(crate) fn watchdog(option: &RawOption) -> Result<Watchdog, Problem> {
    if option.value.is_none() {
        return Ok(Watchdog::Flag);
    }
    if let Some(Lit::Bool(literal)) = option.literal() {
        let help = if literal.value {
            "write `watchdog` alone, or its interval: `watchdog = \"3s\"`"
        } else {
            "without the option there is no watchdog: leave it out"
        };
        return Err(Problem::new(
            literal.span(),
            Message::new("`watchdog` is a flag and takes no bool").help(help),
        ));
    }
    length(option).map(Watchdog::Every)
}

/// Parses a duration that may be zero: `wait = "0s"` tries once, even if the pool has a longer
/// default.
pub(crate) fn wait(option: &RawOption) -> Result<Length, Problem> {
    let example = format!("{} = \"10s\"", option.name);
    let value = required(option, &example)?;
    if let Expr::Unary(syn::ExprUnary {
        op: syn::UnOp::Neg(_),
        ..
    }) = value
    {
        let message = Message::new(format!("`{}` cannot be negative", option.name));
        return Err(Problem::new(
            value.span(),
            message.help(format!("write one such as `{example}`")),
        ));
    }
    let Expr::Lit(literal) = value else {
        return Ok(Length::Expression(Box::new(value.clone())));
    };
    let message = match &literal.lit {
        Lit::Str(text) => match duration::parse(&text.value()) {
            Ok(millis) => return Ok(Length::Millis(millis)),
            Err(message) => message,
        },
        Lit::Int(number) => unquoted(&number.to_string(), number.suffix()),
        Lit::Float(number) => unquoted(&number.to_string(), number.suffix()),
        _ => Message::new(format!("`{}` must be a duration", option.name))
            .help(format!("write one such as `{example}`")),
    };
    Err(Problem::new(literal.span(), message))
}

/// Parses a duration above zero.
pub(crate) fn length(option: &RawOption) -> Result<Length, Problem> {
    match wait(option)? {
        Length::Millis(0) => Err(Problem::new(
            option.span(),
            Message::new(format!("`{}` must not be zero", option.name)).help(
                if option.name == "watchdog" {
                    "write `watchdog` alone, which renews every third of the ttl"
                } else {
                    "write one such as \"10s\""
                },
            ),
        )),
        length => Ok(length),
    }
}

/// Returns the error for `10` and `10s` outside of quotes.
fn unquoted(number: &str, suffix: &str) -> Message {
    if suffix.is_empty() {
        return match duration::parse(number) {
            Ok(_) => Message::new(format!("`{number}` is not a duration")),
            Err(message) => message,
        };
    }
    match duration::parse(number) {
        Ok(_) => Message::new(format!("the duration `{number}` needs quotes"))
            .help(format!("did you mean \"{number}\"?")),
        Err(message) => message,
    }
}

/// Parses an option without a value.
pub(crate) fn flag(option: &RawOption) -> Result<Span, Problem> {
    let name = &option.name;
    match &option.value {
        None => Ok(name.span()),
        Some(value) => Err(Problem::new(
            value.span(),
            Message::new(format!("`{name}` is a flag and takes no value"))
                .help(format!("write `{name}` alone, or leave it out")),
        )),
    }
}

pub(crate) fn permits(option: &RawOption) -> Result<At<u32>, Problem> {
    let value = required(option, "permits = 3")?;
    let count = match option.literal() {
        Some(Lit::Int(number)) => number.base10_parse::<u32>().ok(),
        _ => None,
    };
    match count {
        Some(value @ 1..) => Ok(At {
            value,
            span: option.name.span(),
        }),
        _ => Err(Problem::new(
            value.span(),
            Message::new("`permits` must be a whole number of at least 1")
                .help("write `permits = 3`"),
        )),
    }
}

/// Parses `on_lost`. Returns true if the body continues after its lease is lost.
pub(crate) fn continue_on_lost(option: &RawOption) -> Result<bool, Problem> {
    const CHOICES: [&str; 2] = ["cancel", "continue"];
    let value = required(option, "on_lost = \"cancel\"")?;
    let typed = match value {
        Expr::Lit(syn::ExprLit {
            lit: Lit::Str(text),
            ..
        }) => match text.value().as_str() {
            "cancel" => return Ok(false),
            "continue" => return Ok(true),
            other => other.to_owned(),
        },
        Expr::Continue(_) => "continue".to_owned(),
        Expr::Path(path) => path
            .path
            .get_ident()
            .map(Ident::to_string)
            .unwrap_or_default(),
        _ => String::new(),
    };
    let close = closest(&typed, CHOICES).map(|choice| format!("`on_lost = \"{choice}\"`"));
    Err(Problem::new(
        value.span(),
        Message::new("`on_lost` must be \"cancel\" or \"continue\"").suggest(close, || {
            "\"cancel\" drops the body at its next await; \"continue\" lets it keep running; with \
             `guard = lock` it can call `lock.check()?`"
                .to_owned()
        }),
    ))
}

/// Parses a path or a closure that turns the error into the function's result.
pub(crate) fn on_error(option: &RawOption) -> Result<Box<Expr>, Problem> {
    const EXAMPLE: &str = "on_error = |error| …";
    let value = required(option, EXAMPLE)?;
    let what = match value {
        Expr::Lit(_) => "`on_error` must be a function or a closure",
        Expr::Closure(closure) if closure.asyncness.is_some() => "`on_error` cannot be async",
        Expr::Closure(closure) if closure.inputs.len() != 1 => {
            "`on_error` must take one argument, the `LockError`"
        }
        _ => return Ok(Box::new(value.clone())),
    };
    let message = Message::new(what).help(format!("write `{EXAMPLE}`"));
    Err(Problem::new(value.span(), message))
}

/// Parses the name of the variable through which the body can use its lock.
pub(crate) fn guard(option: &RawOption) -> Result<Ident, Problem> {
    let value = required(option, "guard = lock")?;
    if let Expr::Path(path) = value {
        match path.path.get_ident() {
            Some(name) if path.attrs.is_empty() && *name != "self" && *name != "Self" => {
                return Ok(name.clone());
            }
            _ => {}
        }
    }
    let what = "`guard` must be a name for the lock inside the body";
    Err(Problem::new(
        value.span(),
        Message::new(what).help("write `guard = lock`"),
    ))
}

pub(crate) fn pool(option: &RawOption) -> Result<PoolArg, Problem> {
    let value = required(option, "pool = \"inventory\"")?;
    let what = match value {
        Expr::Lit(syn::ExprLit {
            lit: Lit::Str(name),
            ..
        }) => {
            if name.value().is_empty() {
                "the pool's name is empty"
            } else {
                return Ok(PoolArg::Name(LitStr::new(&name.value(), name.span())));
            }
        }
        Expr::Lit(_) => "`pool` must be the name of an installed pool or an expression",
        other => return Ok(PoolArg::Expression(Box::new(other.clone()))),
    };
    let help = "write the name passed to `install_as`, or an expression such as `self.locks`";
    Err(Problem::new(value.span(), Message::new(what).help(help)))
}

/// Parses the path by which the generated code refers to `leasehold`.
pub(crate) fn runtime(option: &RawOption) -> Result<syn::Path, Problem> {
    const EXAMPLE: &str = "crate = shop::leasehold";
    let value = required(option, EXAMPLE)?;
    let (what, help) = match value {
        Expr::Path(path) if path.qself.is_none() && path.attrs.is_empty() => {
            return Ok(path.path.clone());
        }
        Expr::Lit(syn::ExprLit {
            lit: Lit::Str(text),
            ..
        }) if text.parse_with(syn::Path::parse_mod_style).is_ok() => (
            "`crate` must be a path without quotes",
            format!("did you mean `crate = {}`?", text.value()),
        ),
        _ => (
            "`crate` must be the path of `leasehold`",
            format!("write `{EXAMPLE}`"),
        ),
    };
    Err(Problem::new(value.span(), Message::new(what).help(help)))
}

fn required<'a>(option: &'a RawOption, example: &str) -> Result<&'a Expr, Problem> {
    option.value.as_ref().ok_or_else(|| {
        let what = format!("`{}` needs a value", option.name);
        let message = Message::new(what).help(format!("write `{example}`"));
        Problem::new(option.name.span(), message)
    })
}
