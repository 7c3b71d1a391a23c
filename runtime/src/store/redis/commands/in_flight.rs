//! A request on its way to a server.

use super::redirect::RequestFlags;
use crate::store::{Op, OpId, Reply};

/// A request that went out.
pub(crate) struct InFlight {
    pub(crate) id: OpId,
    pub(crate) op: Op,
    /// The flags that it was sent with.
    pub(crate) flags: RequestFlags,
    /// For a removal: true if its acquires went before it on the same connection.
    pub(crate) ordered: bool,
    /// True if this process listened on the connection for messages of other processes.
    pub(crate) listening: bool,
}

impl InFlight {
    /// Fills in what the answer does not contain.
    pub(crate) fn complete(&self, reply: Reply) -> Reply {
        match reply {
            Reply::Released { found, .. } => Reply::Released {
                found,
                ordered: self.ordered,
            },
            // A process that does not listen would not notice a waiting process. So it must not
            // keep the lock among its own calls as if no other process waited.
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
