//! The place in the program where a lock is taken.

use std::any::type_name;
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
    /// Returns the compiler's path of a closure at this place, which includes the type of a method.
    path: fn() -> &'static str,
    name: OnceLock<String>,
    label: OnceLock<Label>,
}

impl Site {
    /// `function` is the function's path, such as `shop::orders::create_order`. `template` is the
    /// template of its keys, such as `order:<id>`. `here` is a closure in the initializer of the
    /// static that holds this value. The path of the closure's type contains the function's path
    /// and the type of a method.
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

    /// Returns the function's path, including the type of a method.
    fn name(&self) -> &str {
        let name = || readable((self.path)()).unwrap_or_else(|| self.function.to_owned());
        self.name.get_or_init(name)
    }
}

/// Returns the path of a function, such as `shop::Orders::create`. `path` is the path of the
/// closure that `Site::new` got. None if that path does not contain the static.
fn readable(path: &str) -> Option<String> {
    let (path, _) = path.split_once("::__LEASEHOLD_SITE")?;
    let path = path.replace("::{{closure}}", "");
    let (scope, name) = path.rsplit_once("::")?;
    let of = if let Some((_, of)) = scope.split_once("<impl ") {
        // An `impl` in another module than its type: `shop::web::<impl shop::web::Desk for
        // shop::Orders>`.
        let of = of.strip_suffix('>')?;
        of.split_once(" for ").map_or(of, |(_, of)| of)
    } else if let Some(of) = scope.strip_prefix('<') {
        // A trait's method: `<shop::Orders as shop::Desk>`.
        of.split_once(" as ")?.0
    } else {
        scope
    };
    Some(format!("{of}::{name}"))
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
    /// The annotated function's path, including the type of a method, for the owner record. A later
    /// version of the compiler may write the type differently. Empty for a call of
    /// [`LockPool::lock`](crate::LockPool::lock).
    pub(crate) fn function(self) -> &'static str {
        match self {
            Self::Function(site) => site.name(),
            Self::Call(_) => "",
        }
    }

    /// The path of the annotated function's module and its name, under which `replay` keeps
    /// results. Every version of the compiler writes this path in the same way. Empty for a call of
    /// [`LockPool::lock`](crate::LockPool::lock).
    pub(crate) fn path(self) -> &'static str {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the name that a `Site` has in the function or method that uses this macro.
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
            (|| name!())()
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

    /// Fails if methods of two types get one name, or if the compiler's path is not parsed.
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
        static OTHER: Site = Site::new("shop::create", "", 0, "", &|| ());
        assert_eq!(At::Function(&OTHER).function(), "shop::create");
    }
}
