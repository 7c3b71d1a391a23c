//! The place in the program where a lock is taken.

use std::fmt;
use std::panic::Location;
use std::ptr;

use crate::engine::core::ticket::SiteId;

/// Where an annotated function stands.
#[derive(Debug)]
pub struct Site {
    /// Its path, such as `shop::orders::create_order`.
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
    /// The annotated function's path, for the owner record. Empty for a call of
    /// [`LockPool::lock`](crate::LockPool::lock).
    pub(crate) fn function(self) -> &'static str {
        match self {
            Self::Function(site) => site.function,
            Self::Call(_) => "",
        }
    }

    /// The place's own number: its address, which no other place has.
    pub(crate) fn site(self) -> SiteId {
        let address = match self {
            Self::Function(site) => ptr::from_ref(site).addr(),
            Self::Call(location) => ptr::from_ref(location).addr(),
        };
        SiteId(address as u64)
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
