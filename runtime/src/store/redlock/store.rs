//! Carries out the core's decisions, over a connection to each node.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant as TokioInstant, Sleep, sleep};

use super::address::Address;
use super::core::QuorumCore;
use super::eligibility::Met;
use super::identity::Identity;
use super::quorum::majority;
use crate::base::clock::{Clock, Instant};
use crate::base::full_key::FullKey;
use crate::base::reporter;
use crate::check_report::{CheckReport, Finding};
use crate::error::LockError;
use crate::store::options::Options;
use crate::store::redis::commands::key_names::KeyNames;
use crate::store::redis::store::RedisStore;
use crate::store::redis::wire::connection::Generation;
use crate::store::socket::Announced;
use crate::store::{Failure, LockStore, Request, Retry, Socket, StoreEvent};

/// Locks on a quorum of independent servers.
pub(crate) struct RedlockStore {
    core: QuorumCore,
    nodes: Vec<Node>,
    clock: Clock,
    timer: Pin<Box<Sleep>>,
    announced: Announced,
    /// True if the nodes' connections may have unsent requests, which the next poll of the nodes
    /// sends.
    unsent: bool,
    /// True if the quorum has become unreachable, and the engine has not been notified yet.
    gone: bool,
}

struct Node {
    name: String,
    store: RedisStore,
    /// Number of the connection last reported to the core.
    met: Generation,
}

impl RedlockStore {
    /// Connects to all nodes at once. Fails if no quorum can be reached, or if a node fails for a
    /// reason that an operator must fix. Otherwise, the store keeps trying to reach the missing
    /// nodes.
    pub(crate) async fn connect(address: Address, options: &Options) -> Result<Self, LockError> {
        let names = address.names();
        if names.len().is_multiple_of(2) {
            let nodes = names.len();
            reporter::log(move || {
                tracing::warn!(
                    nodes,
                    "an even number of nodes survives no more failures than one node fewer; use an \
                     odd number"
                );
            });
        }
        let starting = address.nodes.into_iter();
        let started = join_all(
            starting.map(|server| RedisStore::start_as(server, on_a_node(options), options)),
        )
        .await;
        let (stores, results): (Vec<_>, Vec<_>) = started.into_iter().unzip();
        reachable(&names, results)?;
        let nodes = names.iter().zip(stores).map(|(name, store)| Node {
            name: name.clone(),
            store,
            met: 0,
        });
        let mut store = Self {
            nodes: nodes.collect(),
            core: QuorumCore::new(names, address.settings),
            clock: options.clock,
            timer: Box::pin(sleep(Duration::ZERO)),
            announced: Announced::default(),
            unsent: false,
            gone: false,
        };
        for node in 0..store.nodes.len() {
            store.meet(node);
            if store.nodes[node].store.peer().is_some() {
                store.core.reached(node);
            }
        }
        store.examine()?;
        Ok(store)
    }

    /// Checks each node over a separate connection.
    pub(crate) async fn check(
        address: Address,
        options: &Options,
    ) -> Result<CheckReport, LockError> {
        let (store, names) = (address.to_string(), address.names());
        let looking = address.nodes.into_iter();
        let looked =
            join_all(looking.map(|node| RedisStore::check_as(node, on_a_node(options), options)))
                .await;
        let mut findings = Vec::new();
        let mut ready = 0;
        for (name, report) in names.iter().zip(looked) {
            match report {
                Ok(report) => {
                    ready += usize::from(report.is_ready());
                    findings.extend(report.findings.into_iter().map(|found| found.at(name)));
                }
                Err(error) => findings.push(Finding::warning("node", format!("{name}: {error}"))),
            }
        }
        if ready < majority(names.len()) {
            let text = format!(
                "{ready} of {} nodes are ready, fewer than a quorum",
                names.len()
            );
            findings.push(Finding::error("quorum", text));
        }
        Ok(CheckReport::new(store, findings))
    }

    /// Fails if a node may not vote even after a quarantine. Logs the nodes in quarantine.
    fn examine(&self) -> Result<(), LockError> {
        let now = self.clock.now();
        for (node, Node { name, .. }) in self.nodes.iter().enumerate() {
            if let Some(why) = self.core.unfit(node) {
                return Err(LockError::config(format!(
                    "{name} cannot be a node of `redlock://`: {why}"
                )));
            }
            if let Some(left) = self.core.quarantined(node, now) {
                let name = name.clone();
                reporter::log(move || {
                    tracing::warn!(
                        node = %name,
                        "started recently; it may have lost locks and does not vote for another {}",
                        crate::error::millis(left)
                    );
                });
            }
        }
        Ok(())
    }

    /// If the node has a new connection, reports its server to the core.
    fn meet(&mut self, node: usize) {
        let Node { name, store, met } = &mut self.nodes[node];
        let Some((generation, info)) = store.peer().filter(|(generation, _)| generation != met)
        else {
            return;
        };
        *met = generation;
        let identity = info.and_then(Identity::read).unwrap_or_default();
        if self.core.meet(node, &identity, self.clock.now()) == Met::Restarted {
            let name = name.clone();
            reporter::log(move || {
                tracing::warn!(
                    node = %name,
                    "was restarted and may have lost locks; it does not vote until the longest \
                     lease has expired"
                );
            });
        }
        if let Some(why) = self.core.unfit(node) {
            let (name, why) = (name.clone(), why.to_string());
            reporter::log(move || tracing::error!(node = %name, "does not vote: {why}"));
        }
    }

    /// Returns the error for calls, if so many nodes are known to be away that the remaining nodes
    /// are not a quorum.
    fn no_quorum(&self) -> Option<LockError> {
        let nodes = self.nodes.iter();
        let why: Vec<_> = nodes
            .filter_map(|node| Some(node.store.away()?.text()))
            .collect();
        let quorum = majority(self.nodes.len()) + why.len() <= self.nodes.len();
        (!quorum).then(|| lacking(&why, self.nodes.len()))
    }

    /// Gives the core's requests to the connections. Returns true if there were any.
    fn flush(&mut self) -> bool {
        let mut sent = false;
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let mut batch = self.core.take_outbox(number);
            if !batch.is_empty() {
                node.store.submit(&mut batch);
                sent = true;
            }
        }
        self.unsent |= sent;
        sent
    }

    /// Passes the nodes' events to the core. Returns true if there were any.
    fn listen(&mut self, cx: &mut Context<'_>) -> bool {
        let mut received = false;
        for node in 0..self.nodes.len() {
            while let Poll::Ready(event) = self.nodes[node].store.poll_event(cx) {
                received = true;
                self.meet(node);
                let now = self.clock.now();
                match event {
                    StoreEvent::Reply(id, result) => self.core.answer(node, id, &result, now),
                    StoreEvent::Connected => self.core.connected(node, now),
                    StoreEvent::Away => self.gone |= self.no_quorum().is_some(),
                    StoreEvent::Revoked { key, lease } => self.core.revoked(&key, lease),
                    // The core does not use the queues of nodes.
                    StoreEvent::Turn(_) | StoreEvent::Wanted(_) => {}
                    // Redis nodes have no sessions.
                    #[cfg(feature = "__session")]
                    StoreEvent::Lost(_) => {}
                }
            }
            // Reports a new connection to the core even if the node's store returned no event for
            // it.
            self.meet(node);
        }
        received
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(due) = self.core.next_due() else {
            return false;
        };
        let now = self.clock.now();
        if due <= now {
            self.core.tick(now);
            return true;
        }
        let next = TokioInstant::now() + due.since(now);
        // An earlier deadline of the timer is kept, because a reset costs more than one needless
        // wake-up.
        if next < self.timer.deadline() || self.timer.is_elapsed() {
            self.timer.as_mut().reset(next);
        }
        self.timer.as_mut().poll(cx).is_ready()
    }
}

impl LockStore for RedlockStore {
    fn submit(&mut self, batch: &mut Vec<Request>) {
        self.unsent = true;
        let now: Instant = self.clock.now();
        for request in batch.drain(..) {
            self.core.submit(request, now);
        }
        self.flush();
    }

    /// True if no quorum can be reached.
    fn is_away(&self) -> bool {
        let reached = self.nodes.iter().filter(|node| !node.store.is_away());
        reached.count() < majority(self.nodes.len())
    }

    fn absence(&self, _key: &FullKey) -> Option<LockError> {
        self.no_quorum()
    }

    fn sockets(&mut self) -> Option<Vec<Arc<dyn Socket>>> {
        let stores = self.nodes.iter().map(|node| &node.store);
        self.announced.changed(stores.flat_map(RedisStore::wires))
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent> {
        // After a submit, the nodes are polled before the next event is returned, so that the
        // submitted requests are sent first.
        loop {
            if !mem::take(&mut self.unsent)
                && let Some(event) = self.core.next_event()
            {
                return Poll::Ready(event);
            }
            let received = self.listen(cx);
            let due = self.poll_timer(cx);
            let sent = self.flush();
            if mem::take(&mut self.gone) {
                return Poll::Ready(StoreEvent::Away);
            }
            if !(received || due || sent) {
                return self.core.next_event().map_or(Poll::Pending, Poll::Ready);
            }
        }
    }
}

fn on_a_node(options: &Options) -> KeyNames {
    KeyNames::of(options).without_companions()
}

/// Fails if no quorum can be reached, or if a node fails for a reason that an operator must fix.
fn reachable(names: &[String], results: Vec<Result<(), Failure>>) -> Result<(), LockError> {
    let nodes = names.len();
    let mut failures = Vec::new();
    for (name, result) in names.iter().zip(results) {
        let Err(failure) = result else {
            continue;
        };
        if failure.retry == Retry::Never {
            return Err(failure.error);
        }
        let (node, error) = (name.clone(), failure.error.clone());
        reporter::log(
            move || tracing::warn!(%node, %error, "cannot be reached; trying again later"),
        );
        failures.push(failure);
    }
    if nodes - failures.len() >= majority(nodes) {
        return Ok(());
    }
    let why: Vec<_> = failures.iter().map(Failure::text).collect();
    Err(lacking(&why, nodes))
}

/// Returns the error of a store without a quorum. `why` has a reason for each missing node.
fn lacking(why: &[String], nodes: usize) -> LockError {
    let reasons = format!("; {}", why.join("; "));
    super::failures::no_quorum(why.len(), nodes, &reasons, Retry::Later).error
}
