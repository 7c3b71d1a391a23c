//! What the session store asks of ZooKeeper.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, timeout};
use zookeeper_client::{Acls, Client, CreateMode, Error, SessionState};

use super::address::Address;
use super::classes::Classes;
use super::live::{Session, answered, done};
use super::names::{self, Names};
use super::{failure, handshake, heartbeat};
use crate::base::reporter;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::owner::Owner;
use crate::store::options::Options;
use crate::store::session::service::{
    Answer, Entered, EnteredAll, Node, Service, Timeout, Trouble, Turn,
};
use crate::store::{Failure, StoreEvent};

/// How long a server gets for an answer to the handshake, at least.
const LEAST_HANDSHAKE: Duration = Duration::from_millis(500);

/// The pause before the servers are asked again. Without a leader they hang up at once.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a server may be silent before the session goes on with another: a fifth of the session,
/// within these bounds.
const LEAST_SILENCE: Duration = Duration::from_secs(1);
const MOST_SILENCE: Duration = Duration::from_secs(3);

/// An ensemble of ZooKeeper.
pub(crate) struct ZooKeeper {
    pub(super) address: Address,
    pub(super) names: Names,
    pub(super) classes: Classes,
    /// How long a look gets that no request waits for.
    pub(super) patience: Duration,
    events: UnboundedSender<StoreEvent>,
    /// Whether requests have failed for want of a server.
    out: AtomicBool,
}

impl ZooKeeper {
    /// Asks the servers that the URL names for their bounds.
    pub(super) async fn reach(
        address: Address,
        options: &Options,
        events: UnboundedSender<StoreEvent>,
    ) -> Result<Self, Failure> {
        let bounds = common_bounds(address.servers(), options.io_timeout);
        let (shortest, longest) = bounds.await?;
        Ok(Self {
            names: address.names(),
            classes: Classes::new(shortest, longest, address.tick),
            address,
            patience: options.io_timeout,
            events,
            out: AtomicBool::new(false),
        })
    }

    pub(super) fn acls(&self) -> Acls<'static> {
        acls(&self.address)
    }

    /// Hears which nodes are wanted back by force, and waits until that list changes.
    async fn hears_revocations(
        &self,
        session: &Session,
        revoked: &(impl Fn(Token, Fence) + Send + Sync),
    ) -> Answer<()> {
        let client = session.client()?;
        let directory = self.names.revocations(session.id);
        let listing = client.list_and_watch_children(&directory);
        let change = match answered(self.patience, listing).await {
            Ok((znodes, change)) => {
                let nodes = znodes.iter().filter_map(|znode| names::read_revoked(znode));
                nodes.for_each(|(name, fence)| revoked(name, fence));
                change
            }
            // None is wanted back. Or another user made the list, and that user cannot remove our
            // nodes.
            Err(absent @ (Error::NoNode | Error::NoAuth)) => {
                let watching = client.check_and_watch_stat(&directory);
                let (found, change) = done(self.patience, watching).await?;
                if absent == Error::NoNode && found.is_some() {
                    return Err(failure::unsettled().into());
                }
                change
            }
            Err(error) => return Err(failure::trouble(&error)),
        };
        // A session that is given up ends with its last client.
        drop(client);
        drop(change.changed().await);
        Ok(())
    }

    async fn opened(&self, timeout: Timeout) -> Answer<(Session, Timeout)> {
        let silence = (timeout.0 / 5).clamp(LEAST_SILENCE, MOST_SILENCE);
        let client = connected(&self.address, timeout, silence).await?;
        let lasts = Timeout(client.session_timeout());
        let directory = self.names.sessions();
        let own = self.names.session(client.session_id().0);
        let ephemeral = CreateMode::Ephemeral.with_acls(self.acls());
        let owner = Owner::written("");
        let create = || client.create(&own, owner.as_bytes(), &ephemeral);
        let mut created = answered(self.patience, create()).await;
        if created == Err(Error::NoNode) {
            let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
            done(self.patience, client.mkdir(&directory, &open)).await?;
            created = answered(self.patience, create()).await;
        }
        created.map_err(|error| failure::trouble(&error))?;
        Ok((Session::new(client, own), lasts))
    }

    /// Notes whether the ensemble can be reached, and tells the engine when it can again.
    fn heard<T>(&self, answer: Answer<T>) -> Answer<T> {
        match &answer {
            Ok(_) => {
                if self.out.swap(false, Ordering::Relaxed) {
                    let server = self.address.to_string();
                    reporter::log(move || tracing::info!(server, "connected again"));
                    // Without a store there is no engine to tell.
                    let _ = self.events.send(StoreEvent::Connected);
                }
            }
            Err(Trouble::Failed(failure)) if matches!(failure.code(), "io" | "timeout") => {
                if !self.out.swap(true, Ordering::Relaxed) {
                    let (server, error) = (self.address.to_string(), failure.error.clone());
                    reporter::log(
                        move || tracing::warn!(server, %error, "cannot connect; trying again"),
                    );
                }
            }
            // The client may have ended the session by its own clock.
            Err(Trouble::Failed(_) | Trouble::Ended) => {}
        }
        answer
    }
}

/// A session that lasts as long as `timeout`, or as long as the server says. It goes on with
/// another server after such a `silence`.
pub(super) async fn connected(
    address: &Address,
    timeout: Timeout,
    silence: Duration,
) -> Answer<Client> {
    let mut connector = Client::connector()
        .with_session_timeout(timeout.0)
        .with_connection_timeout(silence);
    if let Some(digest) = address.digest() {
        connector = connector.with_auth("digest", digest.as_bytes());
    }
    let hosts = address.hosts();
    let connecting = connector.connect(&hosts);
    connecting.await.map_err(|error| failure::trouble(&error))
}

/// Which users may do what with the znodes.
pub(super) fn acls(address: &Address) -> Acls<'static> {
    if address.digest().is_some() {
        Acls::creator_all()
    } else {
        Acls::anyone_all()
    }
}

/// The bounds that all servers have in common that answer, so that a session keeps its length when
/// the client goes on with another server. Asks again until one answers or the time is over.
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
                Err(failure) => reason = failure,
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
        self.classes.all()
    }

    fn serves(&self, timeout: Timeout) -> Duration {
        self.classes.serves(timeout)
    }

    fn confirmed_within(&self) -> Duration {
        self.classes.hearing() * 2
    }

    fn is_away(&self) -> bool {
        self.out.load(Ordering::Relaxed)
    }

    async fn open(
        &self,
        lasts: Timeout,
        patience: Duration,
    ) -> Result<(Session, Timeout), Failure> {
        let opening = timeout(patience, self.opened(lasts)).await;
        let opened = opening.unwrap_or_else(|_| Err(failure::silent().into()));
        self.heard(opened).map_err(|trouble| match trouble {
            // The request for a lock did not leave.
            Trouble::Failed(failure) => failure::not_sent(failure),
            Trouble::Ended => failure::not_sent(failure::unsettled()),
        })
    }

    async fn heartbeat(&self, session: &Session, patience: Duration) -> Answer<()> {
        let hearing = self.classes.hearing();
        self.heard(heartbeat::beat(session, hearing, patience).await)
    }

    /// The client is told of the end when it connects again.
    async fn ended(
        &self,
        session: &Session,
        revoked: impl Fn(Token, Fence) + Send + Sync,
    ) -> Answer<()> {
        let mut state = session.client()?.state_watcher();
        let mut over = pin!(async move {
            while !state.peek_state().is_terminated() {
                if state.changed().await == SessionState::Expired {
                    break;
                }
            }
        });
        loop {
            let hearing = pin!(self.hears_revocations(session, &revoked));
            match select(over.as_mut(), hearing).await {
                Either::Left(_) => return Ok(()),
                Either::Right((heard, _)) => heard?,
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
        let owner = Owner::written(function);
        self.heard(self.make(session, node, queue, &owner, patience).await)
    }

    async fn enter_all(
        &self,
        session: &Session,
        nodes: &[Node],
        function: &'static str,
        patience: Duration,
    ) -> Answer<EnteredAll> {
        let owner = Owner::written(function);
        self.heard(self.make_all(session, nodes, &owner, patience).await)
    }

    async fn present(
        &self,
        session: &Session,
        nodes: &[(Node, Fence)],
        patience: Duration,
    ) -> Answer<Vec<bool>> {
        let client = session.client()?;
        let looks = nodes.iter().map(|(node, expected)| {
            let made = session.made(node.name);
            let client = &client;
            async move {
                let Some(made) = made else {
                    return Ok(false);
                };
                let path = format!("{}/{}", self.names.directory(&node.key), made.name);
                let stat = done(patience, client.check_stat(&path)).await?;
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
