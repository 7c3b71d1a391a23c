//! Parsed values of the options.

use proc_macro2::Span;
use syn::{Expr, LitStr};

use crate::diag::Message;
use crate::template::Template;

/// A value with its place in the source.
#[derive(Clone)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}

/// A length of time: known at compile time, or an expression of type `Duration`.
#[derive(Clone)]
pub(crate) enum Length {
    Millis(u64),
    Expression(Box<Expr>),
}

/// Interval between renewals of the lease.
#[derive(Clone)]
pub(crate) enum Watchdog {
    /// `watchdog` without a value: the library chooses the interval.
    Flag,
    Every(Length),
}

/// Key of the lock.
#[derive(Clone)]
pub(crate) enum KeyArg {
    Template(At<Template>),
    Expression(Box<Expr>),
}

/// Pool of the call.
#[derive(Clone)]
pub(crate) enum PoolArg {
    Name(LitStr),
    Expression(Box<Expr>),
}

/// Reason why an option was refused.
pub(crate) enum Problem {
    Name,
    Value(Vec<(Span, Message)>),
}

impl Problem {
    pub(crate) fn new(span: Span, message: Message) -> Self {
        Self::Value(vec![(span, message)])
    }
}
