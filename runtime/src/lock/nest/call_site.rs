//! The source location where a lock is taken.

use std::any::type_name;
use std::fmt;
use std::panic::Location;
use std::ptr;
use std::sync::OnceLock;

use crate::base::label::Label;
use crate::engine::core::ticket::SiteId;
use crate::owner;

/// Source location, path and key template of an annotated function. Each function has one, in a
/// static.
#[derive(Debug)]
pub struct Site {
    function: &'static str,
    file: &'static str,
    line: u32,
    template: &'static str,
    /// Function that returns the type name of a closure inside the annotated function. This name
    /// contains the function's path and, for a method, the method's type.
    path: fn() -> &'static str,
    name: OnceLock<String>,
    label: OnceLock<Label>,
}

impl Site {
    /// Creates the site of an annotated function, for a static inside that function. `function` is
    /// the function's path, such as `shop::orders::create_order`. `template` is the template of its
    /// keys, such as `order:<id>`. `_here` is a closure in the initializer of the static. The type
    /// name of this closure contains the function's path and, for a method, the method's type.
    pub const fn new<F>(
        function: &'static str,
        file: &'static str,
        line: u32,
        template: &'static str,
        _here: &F,
    ) -> Self {
        Self {
            function,
            file,
            line,
            template,
            path: type_name::<F>,
            name: OnceLock::new(),
            label: OnceLock::new(),
        }
    }

    /// Returns the function's path, as stored in the owner of a lock. The path of a method includes
    /// its type.
    fn name(&self) -> &str {
        let name = || {
            let name = readable((self.path)());
            owner::fitting(name.as_deref().unwrap_or(self.function))
        };
        self.name.get_or_init(name)
    }
}

/// Returns the path of a function, such as `shop::Orders::create`. `path` is the type name of the
/// closure in the function's static `__LEASEHOLD_SITE`. Returns none if `path` does not name this
/// static. Also returns none for a function inside a method, if `path` has one of the two forms
/// below.
fn readable(path: &str) -> Option<String> {
    let (path, _) = path.split_once("::__LEASEHOLD_SITE")?;
    let path = path.replace("::{{closure}}", "");
    // A method of a trait has the path `<shop::Orders as shop::Desk>::create`. If its impl is in
    // another module than the type: `shop::web::<impl shop::web::Desk for shop::Orders>::create`.
    let (block, separator) = match (path.strip_prefix('<'), split_outside(&path, "::<impl ")) {
        (Some(block), _) => (block, " as "),
        (None, Some((_, block))) => (block, " for "),
        (None, None) => return is_balanced(&path).then_some(path),
    };
    let (block, method) = split_outside(block, ">::")?;
    if method.contains([':', '<', '>']) {
        return None;
    }
    let (before, after) = match split_outside(block, separator) {
        Some(parts) => parts,
        // An impl without a trait contains only a type: `shop::web::<impl shop::Orders>::create`.
        None if separator == " for " => (block, block),
        None => return None,
    };
    let of = if separator == " as " { before } else { after };
    is_balanced(of).then(|| format!("{of}::{method}"))
}

/// Splits a path at the first `separator` that is not between `<` and `>`.
fn split_outside<'a>(path: &'a str, separator: &str) -> Option<(&'a str, &'a str)> {
    let mut depth = 0_usize;
    for (at, character) in path.char_indices() {
        if depth == 0 && path[at..].starts_with(separator) {
            return Some((&path[..at], &path[at + separator.len()..]));
        }
        depth = deeper(depth, &path[..at], character)?;
    }
    None
}

/// True if each `<` has a matching `>`.
fn is_balanced(path: &str) -> bool {
    let mut characters = path.char_indices();
    let depth = characters.try_fold(0, |depth, (at, one)| deeper(depth, &path[..at], one));
    depth == Some(0)
}

/// Returns the number of open `<` after `character`, if `depth` are open before it. `before` is the
/// text in front of `character`. None for a `>` without its `<`.
fn deeper(depth: usize, before: &str, character: char) -> Option<usize> {
    match character {
        '<' => Some(depth + 1),
        // The `>` of an arrow, as in `fn(u8) -> u8`, closes no bracket.
        '>' if !before.ends_with('-') => depth.checked_sub(1),
        _ => Some(depth),
    }
}

/// The source location that requests a lock. Shown as `file:line`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At {
    /// An annotated function.
    Function(&'static Site),
    /// A call of [`LockPool::lock`](crate::LockPool::lock).
    Call(&'static Location<'static>),
}

impl At {
    /// Returns the annotated function's path, including the type of a method, for the owner stored
    /// beside the lock. A later version of the compiler may write the type differently. Empty for a
    /// call of [`LockPool::lock`](crate::LockPool::lock).
    pub(crate) fn function(self) -> &'static str {
        match self {
            Self::Function(site) => site.name(),
            Self::Call(_) => "",
        }
    }

    /// Returns the annotated function's module path and name, without the type of a method.
    /// `replay` keeps results under this path, because every version of the compiler writes it in
    /// the same way. Empty for a call of [`LockPool::lock`](crate::LockPool::lock).
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Function(site) => site.function,
            Self::Call(_) => "",
        }
    }

    /// Returns the template of the function's keys. Returns `other` for a call of
    /// [`LockPool::lock`](crate::LockPool::lock), whose template is not known.
    pub(crate) fn label(self) -> Label {
        match self {
            Self::Function(site) => *site.label.get_or_init(|| Label::of(site.template)),
            Self::Call(_) => Label::other(),
        }
    }

    /// Returns a unique number of this source location: the address of its `Site` or `Location`.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the name of the surrounding function or method, as computed by a `Site` inside it.
    macro_rules! name {
        () => {{
            static __LEASEHOLD_SITE: Site = Site::new("fallback", "", 0, "", &|| ());
            At::Function(&__LEASEHOLD_SITE).function()
        }};
    }

    trait Desk {
        fn open() -> &'static str;
        fn shut() -> &'static str {
            name!()
        }
    }

    mod orders {
        use super::*;

        pub(super) struct Orders;
        pub(super) struct Of<T>(T);

        impl Orders {
            pub(super) fn create() -> &'static str {
                name!()
            }
        }

        impl Desk for Orders {
            fn open() -> &'static str {
                name!()
            }
        }

        pub(super) fn create() -> &'static str {
            let closure = || name!();
            closure()
        }
    }

    impl orders::Orders {
        fn find() -> &'static str {
            name!()
        }
    }

    impl<T> Desk for orders::Of<T> {
        fn open() -> &'static str {
            name!()
        }
    }

    /// Fails if methods of two types get the same name. Also fails if `readable` does not
    /// understand a path from this compiler, so that a function gets its fallback name.
    #[test]
    fn methods_are_named_with_their_type() {
        let here = module_path!();
        for (name, expected) in [
            (orders::create(), "orders::create"),
            (orders::Orders::create(), "orders::Orders::create"),
            (orders::Orders::find(), "orders::Orders::find"),
            (orders::Orders::open(), "orders::Orders::open"),
            (orders::Orders::shut(), "Desk::shut"),
            (orders::Of::<u8>::open(), "orders::Of<_>::open"),
        ] {
            assert_eq!(name, format!("{here}::{expected}"));
        }
    }

    /// Fails if a `<` or `>` inside the type of a method cuts the type off. Also fails if a
    /// function inside a method gets the method's name.
    #[test]
    fn brackets_in_paths_are_matched() {
        static OTHER: Site = Site::new("shop::create", "", 0, "", &|| ());
        for (path, name) in [
            ("t::f", Some("t::f")),
            ("t::Of<t::A>::g", Some("t::Of<t::A>::g")),
            ("<t::A as t::T>::g", Some("t::A::g")),
            ("<t::A as t::T>::g::B::h", None),
            ("<t::A as t::T>::g::<impl t::T for B>::h", None),
            ("<t::A as t::T>::g::h", None),
            (
                "<<t::A as t::T>::g::B as t::T>::g",
                Some("<t::A as t::T>::g::B::g"),
            ),
            ("t::f::<impl t::T for t::A>::g", Some("t::A::g")),
            ("t::<impl t::A>::g::<impl t::B>::h", None),
            ("t::<impl t::A>::g", Some("t::A::g")),
            (
                "t::<impl t::T<t::B> for t::Of<t::A>>::g",
                Some("t::Of<t::A>::g"),
            ),
            (
                "<t::Of<<t::A as t::T>::B> as t::T>::g",
                Some("t::Of<<t::A as t::T>::B>::g"),
            ),
            (
                "<t::Of<fn(u8) -> u8> as t::T>::g",
                Some("t::Of<fn(u8) -> u8>::g"),
            ),
            ("<t::A as t::T", None),
            ("t::A>::g", None),
        ] {
            let path = format!("{path}::{{{{closure}}}}::__LEASEHOLD_SITE::{{{{closure}}}}");
            assert_eq!(readable(&path).as_deref(), name, "{path}");
        }
        assert_eq!(At::Function(&OTHER).function(), "shop::create");
    }
}
