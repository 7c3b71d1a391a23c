//! Implements the session store's interface for ZooKeeper.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, timeout};

use super::address::Address;
use super::classes::Classes;
use super::error::Error;
use super::live::{Session, answered, done};
use super::names::{self, Names};
use super::requests::{Kind, Users};
use super::servers::{LEAST_HANDSHAKE, PAUSE, Servers};
use super::{failure, handshake, heartbeat};
use crate::base::reporter;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::owner::Owner;
use crate::store::options::Options;
use crate::store::session::outage::Outage;
use crate::store::session::service::{
    Answer, Entered, EnteredAll, Node, Service, Timeout, Trouble, Turn,
};
use crate::store::{Failure, StoreEvent};

/// Longest time limit for a server's answer to a handshake during an outage.
const LONGEST_HANDSHAKE: Duration = Duration::from_secs(3);

/// A ZooKeeper ensemble.
pub(crate) struct ZooKeeper {
    pub(super) servers: Arc<Servers>,
    pub(super) names: Names,
    /// Time limit of requests for which the caller passes no limit.
    pub(super) patience: Duration,
    events: UnboundedSender<StoreEvent>,
}

impl ZooKeeper {
    /// Connects to the servers in the URL, and reads their bounds for sessions.
    pub(super) async fn reach(
        address: Address,
        options: &Options,
        events: UnboundedSender<StoreEvent>,
    ) -> Result<Self, Failure> {
        let bounds = common_bounds(address.servers(), options.io_timeout);
        let (shortest, longest) = bounds.await?;
        let classes = Classes::new(shortest, longest, address.tick);
        Ok(Self {
            names: address.names(),
            servers: Arc::new(Servers::new(address, classes)),
            patience: options.io_timeout,
            events,
        })
    }

    pub(super) fn users(&self) -> Users {
        users(&self.servers.address)
    }

    /// Calls `revoked` for the session's nodes that another process takes away by force. Then waits
    /// until the list of these nodes changes.
    async fn receives_revocations(
        &self,
        session: &Session,
        revoked: &(impl Fn(Token, Fence) + Send + Sync),
    ) -> Answer<()> {
        let line = session.line(self.patience).await?;
        let directory = self.names.revocations(session.id);
        let listing = line.watch_children(&directory);
        let change = match answered(self.patience, listing).await {
            Ok((znodes, change)) => {
                let nodes = znodes.iter().filter_map(|znode| names::read_revoked(znode));
                nodes.for_each(|(name, fence)| revoked(name, fence));
                change
            }
            // No node is being taken away, or the list belongs to another user. That user cannot
            // remove the nodes of this process, so the list is ignored.
            Err(absent @ (Error::NoNode | Error::NoAuth)) => {
                let watching = line.watch_stat(&directory);
                let (found, change) = done(self.patience, watching).await?;
                if absent == Error::NoNode && found.is_some() {
                    return Err(failure::unsettled().into());
                }
                change
            }
            Err(error) => return Err(failure::trouble(&error)),
        };
        // Drops the connection before the wait, because the session of a dropped pool ends only
        // when no task owns its connection.
        drop(line);
        change.changed().await;
        Ok(())
    }

    async fn opened(&self, timeout: Timeout) -> Answer<(Session, Timeout)> {
        let opening = self.servers.open(timeout.0).await;
        let (line, granted) = opening.map_err(|error| failure::trouble(&error))?;
        let lasts = Timeout(granted.lasts);
        let own = self.names.session(granted.ticket.id);
        let owner = Owner::written("");
        let create = || line.create(&own, owner.as_bytes(), Kind::Ephemeral, self.users());
        let mut created = answered(self.patience, create()).await;
        if created == Err(Error::NoNode) {
            let directory = self.names.sessions();
            done(self.patience, line.make_path(&directory, Users::Anyone)).await?;
            created = answered(self.patience, create()).await;
        }
        created.map_err(|error| failure::trouble(&error))?;
        let session = Session::new(Arc::clone(&self.servers), granted, line, own);
        Ok((session, lasts))
    }

    /// Records an outage, or the end of one, if the result of a request shows it. At the end of an
    /// outage, notifies the engine that the ensemble can be reached again.
    fn noted<T>(&self, answer: Answer<T>) -> Answer<T> {
        match &answer {
            Ok(_) => self.back(),
            Err(Trouble::Failed(failure)) if matches!(failure.code(), "io" | "timeout") => {
                self.servers.lost(&failure.error);
            }
            // These errors do not show if a server can be reached. For example, the client may have
            // ended the session itself.
            Err(Trouble::Failed(_) | Trouble::Ended) => {}
        }
        answer
    }

    /// Records that a server has answered.
    fn back(&self) {
        if self.servers.outage.back() {
            let server = self.servers.address.to_string();
            reporter::log(move || tracing::info!(server, "connected again"));
            // An error means that the store was dropped, so there is no engine to notify.
            let _ = self.events.send(StoreEvent::Connected);
        }
    }
}

/// Returns the users that may access the znodes.
pub(super) fn users(address: &Address) -> Users {
    if address.has_user() {
        Users::Creator
    } else {
        Users::Anyone
    }
}

/// Returns the common bounds of all servers that answer, so that a session keeps its length when
/// the client moves to another server. Repeats the requests until a server answers or the time is
/// over.
async fn common_bounds(
    servers: &[String],
    patience: Duration,
) -> Result<(Duration, Duration), Failure> {
    let begun = Instant::now();
    loop {
        let asking = servers
            .iter()
            .map(|server| handshake::bounds(server, patience.max(LEAST_HANDSHAKE)));
        let (mut common, mut reason) = (None, failure::silent());
        for bounds in join_all(asking).await {
            match bounds {
                Ok((shortest, longest)) => {
                    let (most, least) = common.unwrap_or((shortest, longest));
                    common = Some((shortest.max(most), longest.min(least)));
                }
                Err(error) => reason = failure::not_sent(failure::of(&error)),
            }
        }
        match common {
            Some((shortest, longest)) if longest < shortest => return Err(failure::apart()),
            Some(common) => return Ok(common),
            None if patience <= begun.elapsed() + PAUSE => return Err(reason),
            None => tokio::time::sleep(PAUSE).await,
        }
    }
}

impl Service for ZooKeeper {
    type Session = Session;

    const NAME: &'static str = "zookeeper";

    fn classes(&self) -> Vec<Timeout> {
        self.servers.classes().all()
    }

    fn serves(&self, timeout: Timeout) -> Duration {
        self.servers.classes().serves(timeout)
    }

    fn confirmed_within(&self) -> Duration {
        self.servers.classes().propagation() * 2
    }

    fn outage(&self) -> &Outage {
        &self.servers.outage
    }

    /// Requests the servers' bounds for sessions.
    async fn reach_again(&self) -> bool {
        let patience = self.patience.clamp(LEAST_HANDSHAKE, LONGEST_HANDSHAKE);
        match common_bounds(self.servers.address.servers(), patience).await {
            Ok(_) => true,
            Err(failure) => {
                if self.servers.outage.failed(failure.error) {
                    // An error means that the store was dropped, so there is no engine to notify.
                    let _ = self.events.send(StoreEvent::Away);
                }
                false
            }
        }
    }

    async fn open(
        &self,
        lasts: Timeout,
        patience: Duration,
    ) -> Result<(Session, Timeout), Failure> {
        let opening = timeout(patience, self.opened(lasts)).await;
        let opened = opening.unwrap_or_else(|_| Err(failure::silent().into()));
        self.noted(opened).map_err(|trouble| match trouble {
            // The request for a lock was not sent yet, so it was not carried out.
            Trouble::Failed(failure) => failure::not_sent(failure),
            Trouble::Ended => failure::not_sent(failure::unsettled()),
        })
    }

    async fn heartbeat(&self, session: &Session, patience: Duration) -> Answer<()> {
        let propagation = self.servers.classes().propagation();
        self.noted(heartbeat::beat(session, propagation, patience).await)
    }

    async fn ended(
        &self,
        session: &Session,
        revoked: impl Fn(Token, Fence) + Send + Sync,
    ) -> Answer<()> {
        let mut over = pin!(session.over());
        loop {
            let receiving = pin!(self.receives_revocations(session, &revoked));
            match select(over.as_mut(), receiving).await {
                Either::Left(_) => return Err(Trouble::Ended),
                Either::Right((noted, _)) => noted?,
            }
        }
    }

    async fn close(&self, session: &Session, _patience: Duration) -> Answer<()> {
        session.close();
        Ok(())
    }

    async fn enter(
        &self,
        session: &Session,
        node: &Node,
        queue: bool,
        function: &'static str,
        patience: Duration,
    ) -> Answer<Entered> {
        let _place = session.place(patience).await?;
        let owner = Owner::written(function);
        self.noted(self.make(session, node, queue, &owner, patience).await)
    }

    async fn enter_all(
        &self,
        session: &Session,
        nodes: &[Node],
        function: &'static str,
        patience: Duration,
    ) -> Answer<EnteredAll> {
        let _place = session.place(patience).await?;
        let owner = Owner::written(function);
        self.noted(self.make_all(session, nodes, &owner, patience).await)
    }

    async fn present(
        &self,
        session: &Session,
        nodes: &[(Node, Fence)],
        patience: Duration,
    ) -> Answer<Vec<bool>> {
        let line = session.line(patience).await?;
        let looks = nodes.iter().map(|(node, expected)| {
            let made = session.made(node.name);
            let line = &line;
            async move {
                let Some(made) = made else {
                    return Ok(false);
                };
                let path = format!("{}/{}", self.names.directory(&node.key), made.name);
                let stat = done(patience, line.stat(&path)).await?;
                let stat = stat.filter(|stat| session.is_owner(stat.ephemeral_owner));
                match stat {
                    Some(stat) => Ok(names::fence(stat.czxid)? == *expected),
                    None => Ok(false),
                }
            }
        });
        join_all(looks).await.into_iter().collect()
    }

    async fn remove(&self, session: &Session, node: &Node, patience: Duration) -> Answer<bool> {
        self.unmake(session, node, patience).await
    }

    async fn keep(
        &self,
        _session: &Session,
        _node: &Node,
        _fence: Fence,
        _keep: Duration,
        _patience: Duration,
    ) -> Answer<bool> {
        Err(failure::cannot_keep().into())
    }

    async fn turn(&self, session: &Session, node: &Node) -> Answer<Turn> {
        self.turn_of(session, node).await
    }
}
