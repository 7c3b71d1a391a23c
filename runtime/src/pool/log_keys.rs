//! Whether spans show keys.

use super::builder::LockPoolBuilder;

impl LockPoolBuilder {
    /// Whether the spans of a call show its keys, as the field `lock.key`. Default `false`: they
    /// show the template alone, `lock.template`, because a key can contain private data.
    ///
    /// Metrics never show keys, and the event of a lost lease always shows its key.
    ///
    /// ```
    /// let builder = leasehold::LockPool::builder().log_keys(true);
    /// ```
    pub fn log_keys(mut self, log_keys: bool) -> Self {
        self.log_keys = log_keys;
        self
    }
}
