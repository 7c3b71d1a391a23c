//! The findings of a check of the lock store.

use std::cmp::Reverse;
use std::fmt;

use crate::plain::Plain;

use crate::base::reporter;

/// The findings of [`LockPool::check`](crate::LockPool::check). `Display` writes one line for each
/// finding, without a password.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let pool = leasehold::LockPool::connect("memory://").await?;
/// let report = pool.check().await?;
/// assert_eq!(report.findings.len(), 1);
/// assert!(report.to_string().contains("warning (one-process): "));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a check changes nothing; read its findings"]
#[non_exhaustive]
pub struct CheckReport {
    /// The store, without its password.
    pub store: String,
    /// The problems found, errors before warnings.
    pub findings: Vec<Finding>,
}

/// A present or possible problem of a lock store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let pool = leasehold::LockPool::connect("memory://").await?;
/// for finding in pool.check().await?.findings {
///     println!("{}, code {}: {}", finding.severity, finding.code, finding.text);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The severity of the problem.
    pub severity: Severity,
    /// A short constant for logs and tests: `role`, `cluster`, `cluster-state`, `coverage`,
    /// `quorum`, `node`, `version`, `permission`, `session`, `schema`, `no-space` or `replicas`.
    /// Only warnings have `eviction`, `persistence`, `turns`, `plain-text`, `unverified`,
    /// `unnamed-node`, `pinned`, `bloat`, `one-process` or `unchecked`. For an error that the
    /// server returned, it is the error's own code, such as `OOM`.
    pub code: &'static str,
    /// The meaning of the finding, and the action to take.
    pub text: String,
}

/// The severity of a finding.
///
/// ```
/// use leasehold::Severity;
///
/// assert!(Severity::Warning < Severity::Error);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Locks work. Something can break their guarantees, or could not be checked.
    Warning,
    /// Locks do not work now.
    Error,
}

impl CheckReport {
    pub(crate) fn new(store: String, mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| Reverse(finding.severity));
        Self { store, findings }
    }

    /// Returns true if locks can be taken now: no finding is an error. A probe should call
    /// [`LockPool::ready`](crate::LockPool::ready), which costs less.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let status = if pool.check().await?.is_ready() { 200 } else { 503 };
    /// assert_eq!(status, 200);
    /// # Ok(()) }
    /// ```
    pub fn is_ready(&self) -> bool {
        let mut severities = self.findings.iter().map(|finding| finding.severity);
        severities.all(|severity| severity < Severity::Error)
    }

    /// Returns the finding with this code, if there is one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let report = pool.check().await?;
    /// assert!(report.find("one-process").is_some());
    /// # Ok(()) }
    /// ```
    pub fn find(&self, code: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.code == code)
    }

    pub(crate) fn log(&self) {
        for finding in &self.findings {
            let (server, finding) = (self.store.clone(), finding.clone());
            reporter::log(move || {
                tracing::warn!(
                    server = %Plain(&server),
                    code = finding.code,
                    "{}: {}", finding.severity, Plain(&finding.text)
                );
            });
        }
    }
}

impl Finding {
    pub(crate) fn warning(code: &'static str, text: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            code,
            text: text.into(),
        }
    }

    pub(crate) fn error(code: &'static str, text: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            ..Self::warning(code, text)
        }
    }
}

#[cfg(feature = "redis")]
impl Finding {
    /// Returns the finding with the name of the affected node before its text.
    pub(crate) fn at(self, node: &str) -> Self {
        Self {
            text: format!("{node}: {}", self.text),
            ..self
        }
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.findings.is_empty() {
            return write!(f, "{}: nothing found", Plain(&self.store));
        }
        for (number, finding) in self.findings.iter().enumerate() {
            let end = if number == 0 { "" } else { "\n" };
            write!(f, "{end}{}: {finding}", Plain(&self.store))?;
        }
        Ok(())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Plain(&self.text);
        write!(f, "{} ({}): {text}", self.severity, self.code)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_leave_a_store_ready_and_errors_do_not() {
        let warning = Finding::warning("one", "w");
        let error = Finding {
            severity: Severity::Error,
            ..Finding::warning("two", "e")
        };
        let report = CheckReport::new("s".to_owned(), vec![warning.clone()]);
        assert!(report.is_ready());
        assert_eq!(report.to_string(), "s: warning (one): w");
        let report = CheckReport::new("s".to_owned(), vec![warning, error]);
        assert!(!report.is_ready());
        assert_eq!(report.findings[0].code, "two", "errors come first");
        assert!(report.find("one").is_some() && report.find("three").is_none());
    }

    /// Fails if control characters in a text from a server or a URL reach the printed report. There
    /// they could end a line or move the cursor.
    #[test]
    fn control_characters_in_a_report_are_escaped() {
        let odd = "a\u{1b}[2J\n\u{202e}b";
        let finding = Finding::warning("one", odd);
        for findings in [vec![finding], vec![]] {
            let text = CheckReport::new(odd.to_owned(), findings).to_string();
            assert!(!text.contains(['\n', '\u{1b}', '\u{202e}']), "{text:?}");
            assert!(text.contains("a\\u{1b}[2J\\n\\u{202e}b"), "{text:?}");
        }
    }
}
