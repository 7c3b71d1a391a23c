//! Inspects the locks of an ensemble.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::{join, join_all};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::address::Address;
use super::error::Error;
use super::failure;
use super::jute::Stat;
use super::line::Line;
use super::live::{answered, done};
use super::names::{Names, fence, number, revoked, token};
use super::requests::Kind;
use super::service::{ZooKeeper, users};
use crate::base::digits::percent_decoded;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::owner::Owner;
use crate::store::options::Options;
use crate::store::session::look::{Directories, Look, Seen};
use crate::store::session::service::{Answer, Service, Trouble};
use crate::store::source::{MOST_TOLD, PAGE, Place};

/// Time that the session of an inspection lasts without a heartbeat.
const SESSION: Duration = Duration::from_secs(10);

/// Maximum number of tries to create a znode in a directory that the server may remove in the
/// meantime.
const TRIES: usize = 8;

/// Number of directories that are read concurrently.
const AT_ONCE: usize = 16;

/// Inspects the locks of an ensemble in a dedicated session.
pub(crate) struct ZooKeeperLook {
    address: Address,
    names: Names,
    limit: Duration,
    line: Option<Arc<Line>>,
}

impl ZooKeeperLook {
    pub(crate) fn new(address: Address, options: &Options) -> Self {
        Self {
            names: address.names(),
            address,
            limit: options.io_timeout,
            line: None,
        }
    }

    /// Returns a connection with a dedicated session. Tries each server within the time limit.
    async fn line(&mut self) -> Answer<Arc<Line>> {
        if let Some(line) = self.line.as_ref().filter(|line| !line.is_over()) {
            return Ok(Arc::clone(line));
        }
        let servers = self.address.servers();
        let silence = self.limit / (u32::try_from(servers.len()).unwrap_or(1) + 1);
        let digest = self.address.digest(self.limit).await?;
        let digests: Vec<_> = digest.into_iter().collect();
        let mut reason = failure::silent().into();
        for server in servers {
            match Line::open(server, &digests, SESSION, silence).await {
                Ok((line, _)) => {
                    let line = Arc::new(line);
                    self.line = Some(Arc::clone(&line));
                    return Ok(line);
                }
                Err(error) => reason = failure::trouble(&error),
            }
        }
        Err(reason)
    }

    /// Brings the server of the connection up to date, and returns the answer of `then`. The
    /// requests of `then` are sent after the sync.
    async fn synced<T>(&self, line: &Line, then: impl Future<Output = Answer<T>>) -> Answer<T> {
        let syncing = line.sync(&self.names.above());
        let (synced, answer) = join(done(self.limit, syncing), then).await;
        synced.and(answer)
    }

    /// Returns the names in a directory. A missing directory has none.
    async fn list(&self, line: &Line, path: &str) -> Result<Vec<String>, Error> {
        match answered(self.limit, line.children(path)).await {
            Err(Error::NoNode) => Ok(Vec::new()),
            names => names,
        }
    }

    /// Returns the nodes of a directory, in the order of the queue. Omits znodes of Curator's other
    /// recipes, which are not exclusive locks.
    async fn directory(&self, line: &Line, path: &str) -> Answer<Vec<Seen>> {
        let names = self.list(line, path).await;
        self.nodes_among(line, path, names).await
    }

    async fn nodes_among(
        &self,
        line: &Line,
        path: &str,
        names: Result<Vec<String>, Error>,
    ) -> Answer<Vec<Seen>> {
        let names = names.map_err(|error| failure::trouble(&error))?;
        let znodes = names.into_iter();
        let znodes = znodes.filter_map(|name| Some((number(&name)?, name)));
        let mut znodes: Vec<_> = znodes.collect();
        znodes.sort_unstable_by_key(|(number, _)| *number);
        let znodes = znodes.iter().take(MOST_TOLD + 1);
        let looks = znodes.map(|(_, name)| async move {
            let znode = format!("{path}/{name}");
            match answered(self.limit, line.data(&znode)).await {
                Ok((data, stat)) => seen(znode, token(name), &data, &stat).map(Some),
                Err(Error::NoNode) => Ok(None),
                // A znode that this client may not read must not hide other locks.
                Err(Error::NoAuth) => self.unreadable(line, znode).await,
                Err(error) => Err(failure::trouble(&error)),
            }
        });
        let seen: Result<Vec<_>, Trouble> = join_all(looks).await.into_iter().collect();
        Ok(seen?.into_iter().flatten().collect())
    }

    /// Returns a znode whose data this client has no permission to read. Servers with the fix of
    /// ZOOKEEPER-2590 also refuse to send its `Stat`.
    async fn unreadable(&self, line: &Line, znode: String) -> Answer<Option<Seen>> {
        match answered(self.limit, line.stat(&znode)).await {
            Ok(Some(stat)) => seen(znode, None, &[], &stat).map(Some),
            Ok(None) => Ok(None),
            Err(Error::NoAuth) => Ok(Some(foreign(znode))),
            Err(error) => Err(failure::trouble(&error)),
        }
    }

    /// Like `directory`, but an unreadable directory is not an error, because it must not hide
    /// other locks in a list.
    async fn listed(&self, line: &Line, path: String) -> Answer<Vec<Seen>> {
        match self.list(line, &path).await {
            Err(Error::NoAuth) => Ok(vec![foreign(path)]),
            names => self.nodes_among(line, &path, names).await,
        }
    }
}

/// Returns a node, or a directory, that this client may not read. Only the path is known.
fn foreign(path: String) -> Seen {
    Seen {
        path,
        own: None,
        fence: Fence::new(0),
        owner: None,
        is_kept: false,
        since: None,
        ends: None,
    }
}

fn seen(path: String, name: Option<Token>, data: &[u8], stat: &Stat) -> Answer<Seen> {
    // Only leasehold writes an owner as the data of a znode. Other libraries write other data, or
    // none.
    let owner = std::str::from_utf8(data).ok().and_then(Owner::read);
    let made = u64::try_from(stat.ctime).map(Duration::from_millis);
    Ok(Seen {
        path,
        own: name
            .filter(|_| owner.is_some())
            .map(|name| (stat.ephemeral_owner, name)),
        fence: fence(stat.czxid)?,
        owner,
        is_kept: false,
        since: made
            .ok()
            .and_then(|made| SystemTime::UNIX_EPOCH.checked_add(made)),
        // The server does not report the end of a session.
        ends: None,
    })
}

impl Look for ZooKeeperLook {
    const NAME: &'static str = <ZooKeeper as Service>::NAME;

    async fn nodes(&mut self, key: &FullKey) -> Answer<Vec<Seen>> {
        let line = self.line().await?;
        let path = self.names.directory(key);
        let looking = self.directory(&line, &path);
        self.synced(&line, looking).await
    }

    /// Lists all directories at once, because the server cannot list a part of them. Reads their
    /// nodes page by page.
    async fn directories(
        &mut self,
        _beginning: &str,
        wanted: impl Fn(&str) -> bool + Send + Sync,
        Place(place): Place,
    ) -> Answer<Directories> {
        let line = self.line().await?;
        let above = self.names.above();
        let listing = async {
            let names = self.list(&line, &above).await;
            names.map_err(|error| failure::trouble(&error))
        };
        let mut names = self.synced(&line, listing).await?;
        names.retain(|name| place < *name);
        names.sort_unstable();
        let keys = names.into_iter().filter_map(|name| {
            let key = percent_decoded(&name)?;
            // Skips a name that decodes to a key, but differs from the name that `Names` has for
            // this key. No lock uses such a directory.
            let is_its_own = self.names.directory(&key) == format!("{above}/{name}");
            (is_its_own && wanted(&key)).then_some((name, key))
        });
        let page: Vec<_> = keys.take(PAGE).collect();
        let next = page.last().filter(|_| page.len() == PAGE);
        let next = next.map(|(name, _)| Place(name.clone()));
        let looking = &*self;
        let paths = page.iter().map(|(name, _)| format!("{above}/{name}"));
        let line = &line;
        let looks = paths.map(|path| async move { looking.listed(line, path).await });
        let looks = stream::iter(looks.collect::<Vec<_>>()).buffered(AT_ONCE);
        let seen: Result<Vec<_>, Trouble> = looks.try_collect().await;
        let keys = page.into_iter().map(|(_, key)| key);
        let found = keys.zip(seen?).collect();
        Ok(Directories { found, next })
    }

    /// Creates the revocation as an ephemeral znode, so it ends with the session of this
    /// inspection.
    async fn revoke(&mut self, node: &Seen, session: i64, name: Token) -> Answer<bool> {
        let line = self.line().await?;
        let own = self.names.session(session);
        if done(self.limit, line.stat(&own)).await?.is_none() {
            return Ok(false);
        }
        let directory = self.names.revocations(session);
        let revocation = format!("{directory}/{}", revoked(name, node.fence));
        let users = users(&self.address);
        for _ in 0..TRIES {
            let creating = line.create(&revocation, &[], Kind::Ephemeral, users);
            match answered(self.limit, creating).await {
                Ok(_) | Err(Error::NodeExists) => return Ok(true),
                Err(Error::NoNode) => {}
                Err(error) => return Err(failure::trouble(&error)),
            }
            let creating = line.create(&directory, &[], Kind::Container, users);
            match answered(self.limit, creating).await {
                Ok(_) | Err(Error::NodeExists) => {}
                Err(error) => return Err(failure::trouble(&error)),
            }
        }
        Err(failure::unsettled().into())
    }

    async fn gone(&mut self, node: &Seen) -> Answer<()> {
        let line = self.line().await?;
        loop {
            let watching = line.watch_stat(&node.path);
            let (found, change) = done(self.limit, watching).await?;
            if !is_it(node, found.as_ref()) {
                return Ok(());
            }
            change.changed().await;
            if line.is_over() {
                return Err(Trouble::Ended);
            }
        }
    }

    async fn remove(&mut self, node: &Seen) -> Answer<()> {
        let line = self.line().await?;
        let found = done(self.limit, line.stat(&node.path)).await?;
        if is_it(node, found.as_ref()) {
            return deleted(&line, &node.path, self.limit).await;
        }
        Ok(())
    }

    async fn forget(&mut self, node: &Seen, session: i64, name: Token) -> Answer<()> {
        let line = self.line().await?;
        let directory = self.names.revocations(session);
        let revocation = format!("{directory}/{}", revoked(name, node.fence));
        deleted(&line, &revocation, self.limit).await
    }
}

/// True if the found znode is still the same as `node`.
fn is_it(node: &Seen, found: Option<&Stat>) -> bool {
    found.is_some_and(|stat| fence(stat.czxid).is_ok_and(|fence| fence == node.fence))
}

async fn deleted(line: &Line, znode: &str, limit: Duration) -> Answer<()> {
    match answered(limit, line.delete(znode)).await {
        Ok(()) | Err(Error::NoNode) => Ok(()),
        Err(error) => Err(failure::trouble(&error)),
    }
}
