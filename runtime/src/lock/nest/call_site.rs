//! The place in the program where a lock is taken.

use std::fmt;
use std::panic::Location;
use std::ptr;
use std::sync::OnceLock;

use crate::base::label::Label;
use crate::engine::core::ticket::SiteId;

/// The place of an annotated function in the program.
#[derive(Debug)]
pub struct Site {
    function: &'static str,
    file: &'static str,
    line: u32,
    template: &'static str,
    label: OnceLock<Label>,
}

impl Site {
    /// `function` is the function's path, such as `shop::orders::create_order`. `template` is the
    /// template of its keys, such as `order:<id>`.
    pub const fn new(
        function: &'static str,
        file: &'static str,
        line: u32,
        template: &'static str,
    ) -> Self {
        Self {
            function,
            file,
            line,
            template,
            label: OnceLock::new(),
        }
    }
}

/// The place in the program that requests a lock. Shown as `file:line`.
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

    /// The template of the function's keys. It is not known for a call of
    /// [`LockPool::lock`](crate::LockPool::lock).
    pub(crate) fn label(self) -> Label {
        match self {
            Self::Function(site) => *site.label.get_or_init(|| Label::of(site.template)),
            Self::Call(_) => Label::other(),
        }
    }

    /// The unique number of the place: its address.
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
