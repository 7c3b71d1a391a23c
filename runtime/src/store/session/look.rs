//! Inspects the locks of a server with sessions, and takes them away.
//!
//! If a node were removed at once, the next process would get the lock while the holder still
//! works. So the process that takes a lock away first sends a *revocation* to the holder's session.
//! Then it waits until the holder has removed its node. After [`GRACE`] it removes the node itself.
//! If the revocation cannot be sent, the node stays, because its holder may still work.

use std::future::Future;
use std::time::{Duration, SystemTime};

use tokio::time::timeout;

use super::live_session::ended;
use super::service::{Answer, Trouble};
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::base::token::Token;
use crate::error::LockError;
use crate::fence::Fence;
use crate::inspect::info::{Holder, LockInfo, LockState, Waiter};
use crate::inspect::pattern::Pattern;
use crate::key;
use crate::owner::Owner;
use crate::store::options::Options;
use crate::store::source::{Asking, Page, Place, Source};
use crate::store::{GRACE, Retry};

/// Pause after an error, before the next wait for the removal of a node.
const RETRY: Duration = Duration::from_millis(50);

/// Number of requests that taking a lock away needs in addition to an inspection. Each may take the
/// whole `io_timeout`.
const MORE: u32 = 5;

/// A node, with the data that any process can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The node's key or path on the server.
    pub(crate) path: String,
    /// The session that created the node, and the node's name. `None` if the node was not created
    /// by this library.
    pub(crate) own: Option<(i64, Token)>,
    pub(crate) fence: Fence,
    pub(crate) owner: Option<Owner>,
    /// True if the lock was released, but its node stays for the rest of the lock's `cooldown` or
    /// `min_hold`.
    pub(crate) is_kept: bool,
    /// Creation time of the node, if the server reports it.
    pub(crate) since: Option<SystemTime>,
    /// Time until the node's session ends without a further heartbeat, if the server reports it.
    pub(crate) ends: Option<Duration>,
}

/// A page of the list of directories.
pub(crate) struct Directories {
    /// The full key of each directory, with the directory's nodes in the order of the queue.
    pub(crate) found: Vec<(String, Vec<Seen>)>,
    /// Position at which the list continues. `None` at the end.
    pub(crate) next: Option<Place>,
}

/// Operations that inspect the locks of a server with sessions, and take them away.
pub(crate) trait Look: Send {
    /// The server's name in URLs.
    const NAME: &'static str;

    /// Returns the nodes in the directory of `key`, in the order of the queue.
    fn nodes(&mut self, key: &FullKey) -> impl Future<Output = Answer<Vec<Seen>>> + Send;

    /// Returns the next page of directories, starting at `place`. Their full keys start with
    /// `beginning`, and `wanted` returns true for them.
    fn directories(
        &mut self,
        beginning: &str,
        wanted: impl Fn(&str) -> bool + Send + Sync,
        place: Place,
    ) -> impl Future<Output = Answer<Directories>> + Send;

    /// Sends a revocation of the node to its session. Returns false if the session no longer
    /// exists. Succeeds even if another process sends the same revocation earlier or at the same
    /// time.
    fn revoke(
        &mut self,
        node: &Seen,
        session: i64,
        name: Token,
    ) -> impl Future<Output = Answer<bool>> + Send;

    /// Waits until the node is gone. May fail earlier, for example if the connection ends.
    fn gone(&mut self, node: &Seen) -> impl Future<Output = Answer<()>> + Send;

    /// Removes this node if it still exists. A later node at the same path stays.
    fn remove(&mut self, node: &Seen) -> impl Future<Output = Answer<()>> + Send;

    /// Removes the revocation that [`revoke`](Self::revoke) has written.
    fn forget(
        &mut self,
        node: &Seen,
        session: i64,
        name: Token,
    ) -> impl Future<Output = Answer<()>> + Send;
}

/// Source of a server with sessions: inspects its locks, and takes them away.
pub(crate) struct SessionSource<L> {
    look: L,
    namespace: String,
    io_timeout: Duration,
}

impl<L: Look> SessionSource<L> {
    pub(crate) fn new(look: L, options: &Options) -> Self {
        Self {
            look,
            namespace: options.namespace.clone(),
            io_timeout: options.io_timeout,
        }
    }

    /// Returns the nodes of `key`. Retries once, because the connection may have ended since the
    /// last request.
    async fn nodes(&mut self, key: &FullKey) -> Answer<Vec<Seen>> {
        let nodes = self.look.nodes(key).await;
        if nodes.as_ref().err().is_some_and(may_pass) {
            return self.look.nodes(key).await;
        }
        nodes
    }

    async fn some(&mut self, pattern: &Pattern, place: Place) -> Answer<Page> {
        let prefix = FullKey::new(&self.namespace, "");
        let beginning = format!("{}{}", &*prefix, pattern.beginning());
        let name = |full_key: &str| full_key.strip_prefix(&*prefix).map(str::to_owned);
        let wanted = |full_key: &str| {
            name(full_key).is_some_and(|name| pattern.matches(&name) && key::is_lock(&name))
        };
        let listing = self.look.directories(&beginning, wanted, place.clone());
        let mut listed = listing.await;
        if listed.as_ref().err().is_some_and(may_pass) {
            let listing = self.look.directories(&beginning, wanted, place);
            listed = listing.await;
        }
        let Directories { found, next } = listed?;
        let found = found.into_iter().filter_map(|(full_key, nodes)| {
            let lock = shown(&name(&full_key)?, &nodes);
            lock.is_taken().then_some(lock)
        });
        let locks = found.collect();
        Ok(Page { locks, next })
    }

    async fn take(&mut self, key: &FullKey) -> Answer<LockInfo> {
        let nodes = self.nodes(key).await?;
        let Some(first) = nodes.first() else {
            return Ok(shown(key.name(), &nodes));
        };
        let holder = first.own.filter(|_| !first.is_kept);
        if let Some((session, name)) = holder
            && !seeded!(RevokedIsFree)
            && self.notifies(first, session, name).await?
        {
            // If the holder has not removed its node within `GRACE`, the node is removed below.
            let _ = timeout(GRACE, self.is_gone(first)).await;
        }
        let removed = self.removed(first).await;
        if let Some((session, name)) = holder {
            // An error is ignored, because a remaining revocation does no harm. It concerns no
            // other node, and ends with the node's session or the session of this inspection.
            let _ = self.look.forget(first, session, name).await;
        }
        removed.map(|()| shown(key.name(), &nodes))
    }

    /// Sends a revocation to the node's session. Returns false if the session no longer exists.
    async fn notifies(&mut self, node: &Seen, session: i64, name: Token) -> Answer<bool> {
        let reported = self.look.revoke(node, session, name).await;
        if seeded!(RemovedUnreported) {
            return Ok(reported.unwrap_or(false));
        }
        reported
    }

    /// Waits until the node is gone. If a connection ends, waits again on the next one.
    async fn is_gone(&mut self, node: &Seen) {
        while self.look.gone(node).await.is_err() && !seeded!(FailureIsGone) {
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn removed(&mut self, node: &Seen) -> Answer<()> {
        let removed = self.look.remove(node).await;
        if removed.as_ref().err().is_some_and(may_pass) {
            return self.look.remove(node).await;
        }
        removed
    }
}

impl<L: Look> Source for SessionSource<L> {
    fn look<'a>(&'a mut self, key: &'a FullKey) -> Asking<'a, LockInfo> {
        Box::pin(async move {
            let nodes = self.nodes(key).await;
            let nodes = nodes.map_err(|trouble| error(trouble, L::NAME))?;
            Ok(shown(key.name(), &nodes))
        })
    }

    fn page<'a>(&'a mut self, pattern: &'a Pattern, place: Place) -> Asking<'a, Page> {
        Box::pin(async move {
            let page = self.some(pattern, place).await;
            page.map_err(|trouble| error(trouble, L::NAME))
        })
    }

    fn take_away<'a>(&'a mut self, key: &'a FullKey) -> Asking<'a, LockInfo> {
        Box::pin(async move {
            let taken = self.take(key).await;
            taken.map_err(|trouble| error(trouble, L::NAME))
        })
    }

    fn grace(&self) -> Duration {
        GRACE + self.io_timeout * MORE
    }
}

fn may_pass(trouble: &Trouble) -> bool {
    match trouble {
        Trouble::Ended => true,
        Trouble::Failed(failure) => failure.retry != Retry::Never,
    }
}

fn error(trouble: Trouble, name: &str) -> LockError {
    match trouble {
        Trouble::Failed(failure) => failure.error,
        Trouble::Ended => ended(name).error,
    }
}

/// Describes a lock by the nodes of its directory.
fn shown(key: &str, nodes: &[Seen]) -> LockInfo {
    let mut lock = LockInfo::free(key);
    let Some((first, waiting)) = nodes.split_first() else {
        return lock;
    };
    let fence = first.own.map(|_| first.fence);
    lock.fence = fence;
    if first.is_kept {
        lock.state = LockState::Kept;
        let until = |rest| SystemTime::now().checked_add(rest);
        lock.kept_until = first.ends.and_then(until);
    } else {
        lock.state = LockState::Exclusive;
        lock.holders.push(Holder {
            owner: first.owner.clone(),
            foreign: first.own.is_none(),
            fence,
            ..Holder::unknown(first.ends)
        });
    }
    let waiter = |node: &Seen| Waiter {
        owner: node.owner.clone(),
        since: node.since,
    };
    lock.waiting = waiting.iter().map(waiter).collect();
    lock
}
