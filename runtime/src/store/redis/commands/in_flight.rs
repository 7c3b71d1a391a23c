//! A request sent to a server.

use super::redirect::RequestFlags;
use crate::store::{Op, OpId, Reply};

/// A sent request, with the data that is needed to interpret its answer.
pub(crate) struct InFlight {
    pub(crate) id: OpId,
    pub(crate) op: Op,
    /// The flags with which the request was sent.
    pub(crate) flags: RequestFlags,
    /// True if this is a removal, and the acquires that it undoes were sent before it on the same
    /// connection.
    pub(crate) ordered: bool,
    /// True if the connection listened for messages to this process when the request was sent.
    pub(crate) listening: bool,
}

impl InFlight {
    /// Adds information that the server's answer does not contain.
    pub(crate) fn complete(&self, reply: Reply) -> Reply {
        match reply {
            Reply::Released { found, .. } => Reply::Released {
                found,
                ordered: self.ordered,
            },
            // A process that does not listen is not notified of waiting processes. It must
            // therefore assume that other processes wait (`wanted`). Otherwise, it could hand the
            // lock over among its own calls for too long.
            Reply::Acquired {
                fence,
                reserved_fences,
                ..
            } if !self.listening => Reply::Acquired {
                fence,
                reserved_fences,
                wanted: Some(true),
            },
            Reply::AcquiredAll(all) => {
                Reply::AcquiredAll(all.into_iter().map(|one| self.complete(one)).collect())
            }
            reply => reply,
        }
    }
}
