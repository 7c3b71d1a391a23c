//! Builds the parts of transactions, and reads their answers.

use super::failure;
use super::messages::{
    ASCENDING, BY_CREATION, CREATION, Compare, KeyValue, MODIFICATION, Operand, Operation,
    PutRequest, RangeRequest, TxnResponse,
};
use super::names::end_of;
use crate::fence::Fence;
use crate::owner::Owner;
use crate::store::Failure;
use crate::store::session::service::First;

/// Returns the owner from the value of a node.
pub(super) fn owner(first: &KeyValue) -> Option<Owner> {
    Owner::read(std::str::from_utf8(&first.value).ok()?)
}

/// Returns the first key that the read at index `at` of the transaction has found.
pub(crate) fn one(answer: &TxnResponse, at: usize) -> Result<Option<&KeyValue>, Failure> {
    let range = answer.range(at).ok_or_else(failure::garbled)?;
    Ok(range.kvs.first())
}

/// Describes the first node of a directory with `count` nodes.
pub(super) fn head(found: &KeyValue, count: i64) -> Result<First, Failure> {
    Ok(First {
        fence: fence(found.create_revision)?,
        others: 1 < count,
    })
}

pub(super) fn fence(revision: i64) -> Result<Fence, Failure> {
    let revision = u64::try_from(revision).map_err(|_| failure::garbled())?;
    Ok(Fence::new(revision))
}

/// Returns the revision that a fence stands for.
pub(super) fn revision_of(fence: Fence) -> Result<i64, Failure> {
    i64::try_from(fence.get()).map_err(|_| failure::garbled())
}

/// Builds the condition that the key was created, or last changed, at revision `at`. With 0 the key
/// must not exist.
pub(super) fn revision(target: i32, key: impl AsRef<[u8]>, at: i64) -> Compare {
    let operand = if target == MODIFICATION {
        Operand::ModRevision(at)
    } else {
        Operand::CreateRevision(at)
    };
    Compare {
        target,
        key: key.as_ref().to_vec(),
        operand: Some(operand),
        range_end: Vec::new(),
    }
}

pub(super) fn is_empty(directory: &str) -> Compare {
    Compare {
        range_end: end_of(directory),
        ..revision(CREATION, directory, 0)
    }
}

pub(super) fn put(key: &str, value: &str, lease: i64) -> Operation {
    let (key, value) = (key.into(), value.into());
    PutRequest { key, value, lease }.into()
}

pub(super) fn get(key: &str) -> Operation {
    RangeRequest {
        key: key.into(),
        keys_only: true,
        ..RangeRequest::default()
    }
    .into()
}

/// Builds the operation that reads the oldest node of a directory, with its value.
pub(super) fn first(directory: &str) -> Operation {
    RangeRequest {
        key: directory.into(),
        range_end: end_of(directory),
        limit: 1,
        sort_order: ASCENDING,
        sort_target: BY_CREATION,
        ..RangeRequest::default()
    }
    .into()
}
