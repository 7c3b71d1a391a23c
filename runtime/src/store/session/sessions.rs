//! A session for each class of ttls.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::live_session::LiveSession;
use super::service::{Service, Timeout};
use crate::base::clock::Instant;

/// The sessions of a pool. If the process dies, its locks stay until their sessions end. So each
/// lock uses the session with the shortest lifetime that its ttl fits into.
pub(super) struct Sessions<S: Service> {
    pub(super) classes: Vec<Class<S>>,
}

pub(super) struct Class<S: Service> {
    pub(super) timeout: Timeout,
    /// Locked while the session is opened, so that only one session is opened.
    pub(super) slot: Mutex<Option<Slot<S>>>,
}

pub(super) struct Slot<S: Service> {
    pub(super) session: Arc<LiveSession<S>>,
    pub(super) used: Instant,
}

impl<S: Service> Sessions<S> {
    pub(super) fn new(classes: Vec<Timeout>) -> Self {
        let class = |timeout| Class {
            timeout,
            slot: Mutex::new(None),
        };
        Self {
            classes: classes.into_iter().map(class).collect(),
        }
    }
}
