//! The macro that checks whether a test has switched on a seeded bug: a deliberate bug, which the
//! tests must detect.

/// True if a test has switched the bug on. With `$core`, the macro checks the bug of this core,
/// otherwise the bug of the whole process. In builds without seeded bugs, the macro is the constant
/// `false`.
macro_rules! seeded {
    ($bug:ident) => {{
        #[cfg(any(test, all(feature = "__test", debug_assertions)))]
        let on =
            crate::selftest::seeded_bugs::active() == Some(crate::selftest::seeded_bugs::Bug::$bug);
        #[cfg(not(any(test, all(feature = "__test", debug_assertions))))]
        let on = false;
        on
    }};
    ($core:expr, $bug:ident) => {{
        #[cfg(any(test, all(feature = "__test", debug_assertions)))]
        let on = $core.bug == Some(crate::selftest::seeded_bugs::Bug::$bug);
        #[cfg(not(any(test, all(feature = "__test", debug_assertions))))]
        let on = false;
        on
    }};
}
pub(crate) use seeded;
