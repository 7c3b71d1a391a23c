//! Creates nodes: adds a znode at the end of a lock's directory, and looks up the first znode
//! there.
//!
//! The nodes of a directory are ordered by the numbers that the server assigns. Once a node is the
//! first, it stays the first. A server carries out the requests of a connection in order. So a list
//! requested after a creation shows the created znode and all znodes before it.
//!
//! An unanswered creation may have created its znode, or may still do so. In that case, a write to
//! the session's own znode brings the client's server up to date. After that write, no earlier
//! request of the session can create a znode, for two reasons. Earlier requests of the same
//! connection are over. Requests of an older connection are refused by the leader
//! (`PrepRequestProcessor.java`, `checkSession`).

use std::time::Duration;

use futures_util::future::{join, join_all};

use super::directory::{Directory, directory};
use super::error::Error;
use super::line::Line;
use super::live::{Made, Session, answered, done};
use super::names::{fence, number, prefix};
use super::requests::{Kind, Users};
use super::service::ZooKeeper;
use super::{failure, heartbeat};
use crate::base::seeded::seeded;
use crate::owner::Owner;
use crate::store::session::service::{Answer, Entered, EnteredAll, First, Node, Trouble};

/// Maximum number of nodes created in one step.
const MOST: usize = 100;

/// Number of tries to create a znode. A try fails if the directory for the znode does not exist,
/// because the server removes empty directories.
const TRIES: usize = 8;

impl ZooKeeper {
    pub(super) async fn make(
        &self,
        session: &Session,
        node: &Node,
        queue: bool,
        value: &str,
        patience: Duration,
    ) -> Answer<Entered> {
        let line = session.line(patience).await?;
        let path = self.names.directory(&node.key);
        let known = self.own(session, &line, node, patience).await?;
        let is_new = known.is_none();
        if is_new && !queue {
            // A call that does not queue writes nothing if it finds a holder.
            let found = self.list(&line, &path, patience).await?;
            if found.first().is_some() {
                let owner = self.owner(&line, &found, patience).await;
                return Ok(Entered::Held(owner));
            }
            if !found.is_there {
                self.prepare(&line, &path, patience).await?;
            }
        }
        let placing = async {
            let (made, found) = match known {
                Some(made) => {
                    let names = self.list_names(&line, &path, patience).await?;
                    let names = names.unwrap_or_default();
                    let found = self.accepted(session, node, names, patience).await?;
                    (made, found)
                }
                None => self.create(session, &line, node, value, patience).await?,
            };
            match found.place(&made) {
                None => {
                    // Another client has removed the znode in the meantime.
                    session.has_not(node.name);
                    Err(failure::unsettled().into())
                }
                Some(0) => Ok(Entered::First(first(&made, &found)?)),
                Some(_) => {
                    let waits = queue || !is_new;
                    if !waits {
                        self.unmake(session, node, patience).await?;
                    }
                    let owner = self.owner(&line, &found, patience).await;
                    Ok(if waits {
                        let fence = fence(made.transaction)?;
                        Entered::Behind { fence, owner }
                    } else {
                        Entered::Held(owner)
                    })
                }
            }
        };
        placing.await.map_err(|trouble| {
            if session.may_have(node.name) {
                failure::after_making(trouble)
            } else {
                trouble
            }
        })
    }

    pub(super) async fn make_all(
        &self,
        session: &Session,
        nodes: &[Node],
        value: &str,
        patience: Duration,
    ) -> Answer<EnteredAll> {
        if MOST < nodes.len() {
            return Ok(EnteredAll::Apart);
        }
        let line = session.line(patience).await?;
        let known = self.all_own(session, &line, nodes, patience).await?;
        let known = nodes.iter().zip(known);
        let missing = known.filter(|(_, made)| made.is_none());
        let missing: Vec<_> = missing.map(|(node, _)| node.clone()).collect();
        let lists = self.lists(&line, nodes, patience).await?;
        for (at, (node, found)) in nodes.iter().zip(&lists).enumerate() {
            if missing.contains(node) && found.first().is_some() {
                let owner = self.owner(&line, found, patience).await;
                return Ok(EnteredAll::Held(at, owner));
            }
        }
        let entering = self.all_first(session, &line, nodes, &missing, value, patience);
        entering.await.map_err(|trouble| {
            if nodes.iter().any(|node| session.may_have(node.name)) {
                failure::after_making(trouble)
            } else {
                trouble
            }
        })
    }

    /// Creates the `missing` nodes of `nodes`. If any of `nodes` is then not the first of its
    /// directory, removes the created nodes again.
    async fn all_first(
        &self,
        session: &Session,
        line: &Line,
        nodes: &[Node],
        missing: &[Node],
        value: &str,
        patience: Duration,
    ) -> Answer<EnteredAll> {
        self.create_all(session, line, missing, value, patience)
            .await?;
        // The answer to the combined request lacks the id of the transaction, which becomes the
        // fence (ZOOKEEPER-4026). So the created nodes are looked up.
        let made = self.all_own(session, line, nodes, patience).await?;
        let made = made.into_iter().collect::<Option<Vec<_>>>();
        let made = made.ok_or_else(failure::unsettled)?;
        let lists = self.lists(line, nodes, patience).await?;
        for (at, (found, made)) in lists.iter().zip(&made).enumerate() {
            match found.place(made) {
                Some(0) => {}
                Some(_) => {
                    for node in missing {
                        self.unmake(session, node, patience).await?;
                    }
                    let owner = self.owner(line, found, patience).await;
                    return Ok(EnteredAll::Held(at, owner));
                }
                None => {
                    session.has_not(nodes[at].name);
                    return Err(failure::unsettled().into());
                }
            }
        }
        let fences = made.iter().map(|made| fence(made.transaction));
        Ok(EnteredAll::First(fences.collect::<Result<_, _>>()?))
    }

    /// Returns the znode of the node, if there is one. Searches the directory only if an unanswered
    /// request may have created the znode.
    pub(super) async fn own(
        &self,
        session: &Session,
        line: &Line,
        node: &Node,
        patience: Duration,
    ) -> Answer<Option<Made>> {
        if let Some(made) = session.made(node.name) {
            return Ok(Some(made));
        }
        if !session.is_doubted(node.name) && !seeded!(NodesOfAnySession) {
            return Ok(None);
        }
        heartbeat::write(session, line, patience).await?;
        let path = self.names.directory(&node.key);
        let names = self.list_names(line, &path, patience).await?;
        let prefix = prefix(node.name);
        let mut own: Option<Made> = None;
        for name in names.into_iter().flatten() {
            let Some(number) = number(&name).filter(|_| name.starts_with(&prefix)) else {
                continue;
            };
            let stat = done(patience, line.stat(&format!("{path}/{name}"))).await?;
            let Some(stat) = stat.filter(|stat| session.is_owner(stat.ephemeral_owner)) else {
                continue;
            };
            if own.as_ref().is_none_or(|own| number < own.number) {
                let transaction = stat.czxid;
                own = Some(Made {
                    name,
                    number,
                    transaction,
                });
            }
        }
        match &own {
            Some(made) => session.has_made(node.name, made.clone()),
            None => session.has_not(node.name),
        }
        Ok(own)
    }

    /// Creates the node's znode, and then lists its directory.
    async fn create(
        &self,
        session: &Session,
        line: &Line,
        node: &Node,
        value: &str,
        patience: Duration,
    ) -> Answer<(Made, Directory)> {
        let path = self.names.directory(&node.key);
        let prefix = prefix(node.name);
        let znode = format!("{path}/{prefix}");
        for _ in 0..TRIES {
            session.doubt(node.name);
            // Both requests are sent now, in this order.
            let data = value.as_bytes();
            let creating = line.create(&znode, data, Kind::EphemeralSequential, self.users());
            let listing = line.children(&path);
            let (created, listed) =
                join(answered(patience, creating), answered(patience, listing)).await;
            match created {
                Ok(created) => {
                    let number = number(&created.name).ok_or_else(failure::garbled)?;
                    let transaction = created.stat.czxid;
                    let made = Made {
                        name: created.name,
                        number,
                        transaction,
                    };
                    session.has_made(node.name, made.clone());
                    let listed = listed.map_err(|error| failure::trouble(&error))?;
                    let found = self.accepted(session, node, listed, patience).await?;
                    return Ok((made, found));
                }
                Err(Error::NoNode) => {
                    session.has_not(node.name);
                    self.prepare(line, &path, patience).await?;
                }
                Err(error) => return Err(not_made(session, node, &error)),
            }
        }
        Err(failure::unsettled().into())
    }

    /// Returns the directory of a created node. Fails if the directory has znodes of another recipe
    /// of Curator (a Java client library), or has no numbers left. Before it fails, it removes the
    /// node, because clients of the other recipe must not wait for it.
    async fn accepted(
        &self,
        session: &Session,
        node: &Node,
        names: Vec<String>,
        patience: Duration,
    ) -> Answer<Directory> {
        let found = directory(&self.names.directory(&node.key), names);
        if found.is_err() {
            // A failed removal is tried again by the next request for the lock, or by the release.
            if let Err(Trouble::Ended) = self.unmake(session, node, patience).await {
                return Err(Trouble::Ended);
            }
        }
        found
    }

    /// Creates the znodes of all nodes, or none.
    async fn create_all(
        &self,
        session: &Session,
        line: &Line,
        nodes: &[Node],
        value: &str,
        patience: Duration,
    ) -> Answer<()> {
        let znodes = nodes.iter();
        let znodes = znodes.map(|node| {
            let directory = self.names.directory(&node.key);
            format!("{directory}/{}", prefix(node.name))
        });
        let znodes: Vec<_> = znodes.collect();
        for _ in 0..TRIES {
            for node in nodes {
                session.doubt(node.name);
            }
            let data = value.as_bytes();
            let creating = line.create_all(&znodes, data, Kind::EphemeralSequential, self.users());
            match answered(patience, creating).await {
                Ok(()) => return Ok(()),
                Err(Error::NoNode) => {
                    for node in nodes {
                        session.has_not(node.name);
                        let path = self.names.directory(&node.key);
                        self.prepare(line, &path, patience).await?;
                    }
                }
                Err(error) => {
                    let failed = nodes.iter().map(|node| not_made(session, node, &error));
                    return failed.last().map_or(Ok(()), Err);
                }
            }
        }
        Err(failure::unsettled().into())
    }

    /// Creates the directory of a lock, and missing znodes above it.
    pub(super) async fn prepare(&self, line: &Line, path: &str, patience: Duration) -> Answer<()> {
        let above = path.rsplit_once('/').map_or("", |(above, _)| above);
        for _ in 0..TRIES {
            let creating = line.create(path, &[], Kind::Container, self.users());
            match answered(patience, creating).await {
                Ok(_) | Err(Error::NodeExists) => return Ok(()),
                Err(Error::NoNode) => {
                    // The parent is created for every user, because the locks of other users have
                    // the same parent.
                    done(patience, line.make_path(above, Users::Anyone)).await?;
                }
                Err(error) => return Err(failure::trouble(&error)),
            }
        }
        Err(failure::unsettled().into())
    }

    /// Returns the znodes of a directory, as the server of the connection sees them. That server
    /// may be behind the leader.
    pub(super) async fn list(
        &self,
        line: &Line,
        path: &str,
        patience: Duration,
    ) -> Answer<Directory> {
        match self.list_names(line, path, patience).await? {
            Some(names) => directory(path, names),
            None => Ok(Directory {
                path: path.to_owned(),
                is_there: false,
                znodes: Vec::new(),
            }),
        }
    }

    /// Returns the names in a directory. `None` if the directory does not exist.
    async fn list_names(
        &self,
        line: &Line,
        path: &str,
        patience: Duration,
    ) -> Answer<Option<Vec<String>>> {
        match answered(patience, line.children(path)).await {
            Ok(names) => Ok(Some(names)),
            Err(Error::NoNode) => Ok(None),
            Err(error) => Err(failure::trouble(&error)),
        }
    }

    async fn lists(
        &self,
        line: &Line,
        nodes: &[Node],
        patience: Duration,
    ) -> Answer<Vec<Directory>> {
        let lists = nodes.iter().map(|node| async move {
            let path = self.names.directory(&node.key);
            self.list(line, &path, patience).await
        });
        join_all(lists).await.into_iter().collect()
    }

    async fn all_own(
        &self,
        session: &Session,
        line: &Line,
        nodes: &[Node],
        patience: Duration,
    ) -> Answer<Vec<Option<Made>>> {
        let own = nodes
            .iter()
            .map(|node| self.own(session, line, node, patience));
        join_all(own).await.into_iter().collect()
    }

    async fn owner(&self, line: &Line, found: &Directory, patience: Duration) -> Option<Owner> {
        let path = found.path_of(found.first()?);
        let (data, _) = answered(patience, line.data(&path)).await.ok()?;
        Owner::read(std::str::from_utf8(&data).ok()?)
    }
}

/// Converts the error of a creation. If the server certainly created nothing, records that the node
/// does not exist.
fn not_made(session: &Session, node: &Node, error: &Error) -> Trouble {
    let trouble = failure::trouble(error);
    if matches!(&trouble, Trouble::Failed(failure) if !failure.executed) {
        session.has_not(node.name);
    }
    trouble
}

/// Describes the node as the first of the directory `found`.
pub(super) fn first(made: &Made, found: &Directory) -> Result<First, Trouble> {
    Ok(First {
        fence: fence(made.transaction)?,
        others: 1 < found.znodes.len(),
    })
}
