//! The revision of a session's own key, its *epoch*. Each transaction that creates or removes a
//! node is carried out only if the epoch is still the known one.
//!
//! An unanswered transaction may still wait at a stopped member, and create a node later. To
//! prevent this, the session is *sealed*: its own key is written again, which changes the epoch.
//! After that, the removal of a node is final, because no earlier transaction can create the node
//! again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::failure;
use super::messages::{MODIFICATION, Operation, TxnRequest, TxnResponse};
use super::requests::{get, one, put, revision};
use crate::store::Failure;
use crate::store::session::service::{Answer, Trouble};

/// The epoch of a session, as far as this process knows it.
pub(crate) struct Epoch {
    /// The session's own key.
    key: String,
    lease: i64,
    revision: Mutex<i64>,
}

impl Epoch {
    pub(crate) fn new(key: String, lease: i64, revision: i64) -> Self {
        let revision = Mutex::new(revision);
        Self {
            key,
            lease,
            revision,
        }
    }

    fn revision(&self) -> MutexGuard<'_, i64> {
        self.revision.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> i64 {
        *self.revision()
    }

    /// Builds a transaction that carries out `operations` if the session's key still has the known
    /// epoch. Otherwise, the transaction reads the session's key.
    pub(super) fn unsealed(&self, operations: Vec<Operation>) -> TxnRequest {
        self.unsealed_since(self.now(), operations)
    }

    /// Like `unsealed`, but for an `epoch` that the caller has read earlier.
    pub(super) fn unsealed_since(&self, epoch: i64, operations: Vec<Operation>) -> TxnRequest {
        TxnRequest {
            compare: vec![revision(MODIFICATION, &self.key, epoch)],
            success: operations,
            failure: vec![get(&self.key)],
        }
    }

    /// Builds a transaction that writes the session's key.
    pub(super) fn seal(&self) -> TxnRequest {
        TxnRequest {
            success: vec![put(&self.key, "", self.lease)],
            ..TxnRequest::default()
        }
    }

    /// Records the answer to [`seal`](Self::seal). Returns the new epoch.
    pub(crate) fn sealed(&self, answer: &TxnResponse) -> Result<i64, Failure> {
        let header = answer.header.ok_or_else(failure::garbled)?;
        let mut revision = self.revision();
        *revision = header.revision.max(*revision);
        Ok(header.revision)
    }

    /// Updates the epoch from the answer to a failed transaction, whose epoch may be outdated. If
    /// the session's key is missing, the session has ended.
    pub(crate) fn learn(&self, answer: &TxnResponse) -> Answer<()> {
        let Some(shown) = one(answer, 0)? else {
            return Err(Trouble::Ended);
        };
        let mut revision = self.revision();
        *revision = shown.mod_revision.max(*revision);
        Ok(())
    }
}
