//! What the values of the options are, once they were read.

use proc_macro2::Span;
use syn::{Expr, LitStr};

use crate::diag::Message;
use crate::template::Template;

/// A value with the place where it was written.
#[derive(Clone)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}

/// A length of time: known now, or an expression of type `Duration`.
#[derive(Clone)]
pub(crate) enum Length {
    Millis(u64),
    Expression(Box<Expr>),
}

/// How often the lease is renewed.
#[derive(Clone)]
pub(crate) enum Watchdog {
    /// As the runtime thinks best.
    Flag,
    Every(Length),
}

/// What is locked.
#[derive(Clone)]
pub(crate) enum KeyArg {
    Template(At<Template>),
    Expression(Box<Expr>),
}

/// Which pool.
#[derive(Clone)]
pub(crate) enum PoolArg {
    Name(LitStr),
    Expression(Box<Expr>),
}

/// Why an option was not taken.
pub(crate) enum Problem {
    Name,
    Value(Vec<(Span, Message)>),
}

impl Problem {
    pub(crate) fn new(span: Span, message: Message) -> Self {
        Self::Value(vec![(span, message)])
    }
}
