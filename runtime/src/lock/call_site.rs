//! Where a lock is taken in the program.

use std::fmt;
use std::panic::Location;

/// Where an annotated function stands.
#[derive(Debug)]
pub struct Site {
    /// Its path, `shop::acquires::create_order`.
    pub function: &'static str,
    /// `file!()`.
    pub file: &'static str,
    /// `line!()`.
    pub line: u32,
}

/// Where a lock is asked for; shown as `file:line`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At {
    /// An annotated function.
    Function(&'static Site),
    /// A call of [`LockPool::lock`](crate::LockPool::lock).
    Call(&'static Location<'static>),
}

impl At {
    /// The annotated function's path, for the owner record; empty for a call.
    pub(crate) fn function(self) -> &'static str {
        match self {
            Self::Function(site) => site.function,
            Self::Call(_) => "",
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line) = match self {
            Self::Function(site) => (site.file, site.line),
            Self::Call(location) => (location.file(), location.line()),
        };
        write!(f, "{file}:{line}")
    }
}
