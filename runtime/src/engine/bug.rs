//! Bugs that tests switch on, to see that they are found. None of them is compiled outside of tests.

/// Whether a test has switched a bug on; outside of tests `false`, known to the compiler.
macro_rules! seeded {
    ($core:expr, $bug:ident) => {{
        #[cfg(test)]
        let on = $core.bug == Some(super::bug::Bug::$bug);
        #[cfg(not(test))]
        let on = false;
        on
    }};
}
pub(super) use seeded;

/// A bug that a distributed lock could have.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The lease is counted from the reply instead of from the request.
    CountedFromReply,
    /// A renewal that says "not yours" is taken for a passing error.
    LossIgnored,
    /// A renewal whose outcome is not known prolongs the lease.
    UnknownIsSuccess,
    /// An abandoned acquire is forgotten instead of removed.
    OrphanForgotten,
    /// One removal is believed to settle an acquire whose outcome is not known.
    RemovalBelieved,
    /// The lease is given up at the end of the key's ttl instead of before.
    NoMargin,
    /// The end of a waiter's budget is not watched.
    BudgetIgnored,
}

#[cfg(test)]
impl Bug {
    pub(crate) const ALL: [Self; 7] = [
        Self::CountedFromReply,
        Self::LossIgnored,
        Self::UnknownIsSuccess,
        Self::OrphanForgotten,
        Self::RemovalBelieved,
        Self::NoMargin,
        Self::BudgetIgnored,
    ];
}
