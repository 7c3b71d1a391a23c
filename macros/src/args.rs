//! The attribute's options. This module checks the value of each option. The module `check`
//! compares the options with each other and with the function.

use proc_macro2::{Span, TokenStream};
use syn::parse::{ParseStream, Parser as _};
use syn::{Expr, Ident};

use crate::diag::{Diagnostics, Message, closest};
use crate::elsewhere::{Meaning, meaning};
use crate::option::{At, KeyArg, Length, PoolArg, Problem, Watchdog};
use crate::raw::RawOption;
use crate::value;

/// Names of all options, in the order of the documentation.
pub(crate) const OPTIONS: [&str; 18] = [
    "key",
    "ttl",
    "watchdog",
    "max_hold",
    "wait",
    "cooldown",
    "min_hold",
    "replay",
    "fingerprint",
    "shared",
    "permits",
    "reentrant",
    "on_lost",
    "on_error",
    "detach",
    "guard",
    "pool",
    "crate",
];

/// The options as written. A field is `None` if its option is absent or has a wrong value.
#[derive(Default)]
pub(crate) struct Args {
    /// The keys: more than one for `key = ["a", "b"]`.
    pub(crate) key: Option<Vec<KeyArg>>,
    pub(crate) ttl: Option<At<Length>>,
    pub(crate) watchdog: Option<At<Watchdog>>,
    pub(crate) max_hold: Option<At<Length>>,
    pub(crate) wait: Option<At<Length>>,
    pub(crate) cooldown: Option<At<Length>>,
    pub(crate) min_hold: Option<At<Length>>,
    pub(crate) replay: Option<At<Length>>,
    pub(crate) fingerprint: Option<Box<Expr>>,
    pub(crate) shared: Option<Span>,
    pub(crate) permits: Option<At<u32>>,
    pub(crate) reentrant: Option<Span>,
    pub(crate) detach: Option<Span>,
    pub(crate) continue_on_lost: bool,
    pub(crate) on_error: Option<Box<Expr>>,
    pub(crate) guard: Option<Ident>,
    pub(crate) pool: Option<PoolArg>,
    /// Path of the crate `leasehold`, from the option `crate`.
    pub(crate) runtime: Option<syn::Path>,
    /// Names of all written options, including those with wrong values.
    written: Vec<Ident>,
    /// Names that the user probably meant, for options that are unknown or could not be read.
    meant: Vec<String>,
    /// Written names of unknown options.
    unknown: Vec<Ident>,
}

impl Args {
    pub(crate) fn parse(tokens: TokenStream, diagnostics: &Diagnostics) -> Self {
        let mut args = Self::default();
        let options = |input: ParseStream<'_>| {
            while !input.is_empty() {
                match RawOption::parse(input, diagnostics) {
                    Ok(option) => args.take(&option, diagnostics),
                    Err(meant) => args.meant.push(meant),
                }
            }
            Ok(())
        };
        if let Err(error) = options.parse2(tokens) {
            diagnostics.syntax(error);
        }
        for name in &args.unknown {
            diagnostics.error(name.span(), &args.unknown(name));
        }
        args
    }

    /// Returns the written name of an option, even if its value was wrong.
    pub(crate) fn name_of(&self, option: &str) -> Option<&Ident> {
        self.written.iter().find(|name| *name == option)
    }

    /// True if an option was written, even misspelled or in a form that could not be read.
    pub(crate) fn attempted(&self, option: &str) -> bool {
        self.name_of(option).is_some() || self.meant.iter().any(|meant| meant == option)
    }

    fn take(&mut self, option: &RawOption, diagnostics: &Diagnostics) {
        if self.name_of(&option.name.to_string()).is_some() {
            let twice = format!("`{}` is set twice", option.name);
            let message = Message::new(twice).help("keep one of them");
            return diagnostics.error(option.name.span(), &message);
        }
        let span = option.span();
        let name = option.name.clone();
        match self.set(option, span) {
            Ok(()) => self.written.push(name),
            Err(Problem::Value(messages)) => {
                self.written.push(name);
                for (span, message) in messages {
                    diagnostics.error(span, &message);
                }
            }
            Err(Problem::Name) => {
                self.meant
                    .extend(meant(&name).into_iter().map(str::to_owned));
                self.unknown.push(name);
            }
        }
    }

    /// Sets the field of an option. Only this function connects the names of options with their
    /// fields and with the functions that check their values.
    fn set(&mut self, option: &RawOption, span: Span) -> Result<(), Problem> {
        let at = |value| At { value, span };
        let watchdog = |value| At { value, span };
        match option.name.to_string().as_str() {
            "key" => self.key = Some(value::key(option)?),
            "ttl" => self.ttl = Some(at(value::ttl(option)?)),
            "watchdog" => self.watchdog = Some(watchdog(value::watchdog(option)?)),
            "max_hold" => self.max_hold = Some(at(value::length(option)?)),
            "wait" => self.wait = Some(at(value::wait(option)?)),
            "cooldown" => self.cooldown = Some(at(value::cooldown(option)?)),
            "min_hold" => self.min_hold = Some(at(value::min_hold(option)?)),
            "replay" => self.replay = Some(at(value::replay(option)?)),
            "fingerprint" => self.fingerprint = Some(value::fingerprint(option)?),
            "shared" => self.shared = Some(value::flag(option)?),
            "permits" => self.permits = Some(value::permits(option)?),
            "reentrant" => self.reentrant = Some(value::flag(option)?),
            "detach" => self.detach = Some(value::flag(option)?),
            "on_lost" => self.continue_on_lost = value::continue_on_lost(option)?,
            "on_error" => self.on_error = Some(value::on_error(option)?),
            "guard" => self.guard = Some(value::guard(option)?),
            "pool" => self.pool = Some(value::pool(option)?),
            "crate" => self.runtime = Some(value::runtime(option)?),
            _ => return Err(Problem::Name),
        }
        Ok(())
    }

    /// Returns the error for an unknown name. Call this after all options have been read, so that
    /// the error does not suggest an option that is already there.
    fn unknown(&self, name: &Ident) -> Message {
        let message = Message::new(format!("unknown option `{name}`"));
        if let Some(Meaning::Options(_, advice) | Meaning::Advice(advice)) =
            meaning(&name.to_string())
        {
            return message.help(advice);
        }
        let close = meant(name).first().copied();
        if let Some(given) = close.filter(|ours| self.name_of(ours).is_some()) {
            return message.help(format!("remove it: `{given}` is already set"));
        }
        message.suggest(close.map(|name| format!("`{name}`")), || {
            let names: Vec<String> = OPTIONS.iter().map(|name| format!("`{name}`")).collect();
            format!("the options are {}", names.join(", "))
        })
    }
}

/// Returns the options that `name` most likely stands for.
fn meant(name: &Ident) -> Vec<&'static str> {
    let typed = name.to_string();
    match meaning(&typed) {
        Some(Meaning::Option(ours)) => vec![ours],
        Some(Meaning::Options(ours, _)) => ours.to_vec(),
        Some(Meaning::Advice(_)) => Vec::new(),
        None => closest(&typed, OPTIONS).into_iter().collect(),
    }
}
