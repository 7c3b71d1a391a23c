//! The option that shows keys in spans.

use super::builder::LockPoolBuilder;

impl LockPoolBuilder {
    /// Sets whether the spans of a call show the call's keys, in the field `lock.key`. Default:
    /// `false`, because a key can contain private data. The spans then show only the template of
    /// the keys, in `lock.template`.
    ///
    /// Metrics never show keys. The log event of a lost lease always shows the key.
    ///
    /// ```
    /// let builder = leasehold::LockPool::builder().log_keys(true);
    /// ```
    pub fn log_keys(mut self, log_keys: bool) -> Self {
        self.log_keys = log_keys;
        self
    }
}
