//! Seeded bugs: one macro, which is `false` outside of tests.

/// True if a test has switched the bug on, in the given core or, without a core, in the process.
/// Outside of tests the macro is a constant `false`.
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
