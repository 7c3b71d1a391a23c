//! A request on its way to a server.

use super::redirect::RequestFlags;
use crate::store::{Op, OpId, Reply};

/// A request that went out.
pub(crate) struct InFlight {
    pub(crate) id: OpId,
    pub(crate) op: Op,
    /// How it was put to a node of a cluster.
    pub(crate) manner: RequestFlags,
    /// For a removal: whether its acquires went before it on the same connection.
    pub(crate) ordered: bool,
    /// Whether the connection listened for what other processes have to say.
    pub(crate) listening: bool,
}

impl InFlight {
    /// Fills in what the answer does not say.
    pub(crate) fn complete(&self, reply: Reply) -> Reply {
        match reply {
            Reply::Released { found, .. } => Reply::Released {
                found,
                ordered: self.ordered,
            },
            // One that will not be told of others must not keep the lock among its own calls as if there were none.
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
