//! Removes nodes, and waits until a node is the first of its directory.

use std::time::Duration;

use super::entering::first;
use super::error::Error;
use super::failure;
use super::live::{Session, answered};
use super::service::ZooKeeper;
use crate::base::seeded::seeded;
use crate::store::session::service::{Answer, Node, Turn};

impl ZooKeeper {
    /// Removes a node, and returns true if the node existed. After a success, no earlier request
    /// can create the node.
    pub(super) async fn unmake(
        &self,
        session: &Session,
        node: &Node,
        patience: Duration,
    ) -> Answer<bool> {
        let line = session.line(patience).await?;
        let own = self.own(session, &line, node, patience).await?;
        let path = self.names.directory(&node.key);
        if seeded!(DeleteWithoutCompare) {
            for (_, name) in self.list(&line, &path, patience).await?.znodes {
                let deleting = line.delete(&format!("{path}/{name}"));
                let _ = answered(patience, deleting).await;
            }
        }
        let Some(made) = own else {
            return Ok(false);
        };
        let znode = format!("{path}/{}", made.name);
        match answered(patience, line.delete(&znode)).await {
            Ok(()) => {
                session.has_not(node.name);
                Ok(true)
            }
            Err(Error::NoNode) => {
                session.has_not(node.name);
                Ok(false)
            }
            Err(error) => Err(failure::trouble(&error)),
        }
    }

    /// Waits until the node is the first of its directory, or is gone. Watches only the znode
    /// directly ahead in the queue, so that the end of a lock wakes one waiter. The end of a
    /// connection wakes all waiters, and each of them checks again on the next connection.
    pub(super) async fn turn_of(&self, session: &Session, node: &Node) -> Answer<Turn> {
        let path = self.names.directory(&node.key);
        loop {
            let place = session.place(self.patience).await?;
            let line = session.line(self.patience).await?;
            let own = self.own(session, &line, node, self.patience).await?;
            let found = self.list(&line, &path, self.patience).await?;
            let Some(own) = own else {
                return Ok(Turn::Gone);
            };
            let before = match found.place(&own) {
                None => {
                    session.has_lost(node.name, &own);
                    return Ok(Turn::Gone);
                }
                Some(0) => return Ok(Turn::First(first(&own, &found)?)),
                Some(place) => &found.znodes[place - 1].1,
            };
            let watched = found.path_of(before);
            let watching = line.watch_data(&watched);
            drop(line);
            let watching = answered(self.patience, watching).await;
            drop(place);
            match watching {
                Ok(change) => change.changed().await,
                Err(Error::NoNode) => {}
                Err(error) => return Err(failure::trouble(&error)),
            }
        }
    }
}
