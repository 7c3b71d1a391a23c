//! One call of a worker process, and the state that all calls of the process share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use leasehold::__test::now;
use leasehold::LockPool;

use super::job::{Form, Work};
use super::ledger::Ledger;
use super::orders::Orders;
use super::shop::Shop;
use crate::oracle::{History, Mode};

/// The state that all bodies of a process share.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) history: History,
    pub(super) ledger: Ledger,
    pub(super) shop: Option<Shop>,
    pub(super) orders: Option<Orders>,
}

/// One call of an annotated function, with its parameters.
#[derive(Debug, Clone)]
pub(super) struct Errand {
    pub(super) desk: Arc<Desk>,
    pub(super) pool: LockPool,
    /// One key, or two if the call locks two keys at once.
    pub(super) keys: Vec<String>,
    pub(super) ttl: Duration,
    pub(super) mode: Mode,
    pub(super) form: Form,
    pub(super) work: Work,
    pub(super) fails: bool,
    pub(super) block: Option<Duration>,
    pub(super) asked: u64,
    /// Start of the current poll of the whole call, read before the library checks the lease's
    /// deadline and polls the body.
    pub(super) began: Arc<AtomicU64>,
    /// For a nested call: number of the outer body, whose lock the call enters.
    pub(super) within: Option<u64>,
    /// Fingerprint of the request, for a call with `replay`.
    pub(super) print: u64,
}

impl Errand {
    pub(super) fn key(&self) -> &str {
        &self.keys[0]
    }

    /// Returns the second key of a call that locks two keys.
    pub(super) fn second(&self) -> &str {
        &self.keys[1]
    }

    /// Returns the call's `cooldown`: the time for which the key stays locked after the end of the
    /// body.
    pub(super) fn cooldown(&self) -> Duration {
        match self.form {
            Form::Kept { ms } => Duration::from_millis(ms),
            _ => Duration::ZERO,
        }
    }

    /// Returns the call's `replay`: the time for which the store keeps the result.
    pub(super) fn replay(&self) -> Duration {
        match self.form {
            Form::Replayed { ms, .. } => Duration::from_millis(ms),
            _ => Duration::ZERO,
        }
    }

    /// Returns a call nested in the body with the number `holder`.
    pub(super) fn nested_in(&self, holder: u64) -> Self {
        Self {
            form: Form::Plain,
            mode: Mode::Alone,
            fails: false,
            asked: now(),
            within: Some(holder),
            ..self.clone()
        }
    }
}
