//! Carries out the router's decisions, over a connection to each master.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, Sleep, sleep};

use super::address::Address;
use super::check;
use super::map::Map;
use super::nodes::{Access, Nodes};
use super::router::Router;
use super::topology::Topology;
use crate::base::clock::Clock;
use crate::base::full_key::FullKey;
use crate::base::reporter;
use crate::check_report::CheckReport;
use crate::error::LockError;
use crate::key::RESERVED;
use crate::store::options::Options;
use crate::store::redis::commands::hash_slot;
use crate::store::redis::commands::key_names::KeyNames;
use crate::store::redis::store::RedisStore;
use crate::store::redis::wire::server::Server;
use crate::store::{Failure, LockStore, Request, Retry, Socket, StoreEvent};

/// Interval between reads of the slot map while nothing indicates a change.
const PERIOD: Duration = Duration::from_secs(30);

/// First and longest pause between reads while the slot map may be out of date. Each pause is twice
/// as long as the previous one.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Number of failed reads after which the store accepts a slot map with an older epoch than the
/// current map's. Until then, it rejects such a map, because the node may have missed a fail-over.
/// It then accepts the map, because the cluster may be a new one, whose epochs begin low again.
const OLDER: u32 = 10;

/// Number of nodes that each read of the slot map asks at once. A single node may be down, or may
/// have missed a fail-over.
const ASKED: usize = 4;

type Reading = Pin<Box<dyn Future<Output = Result<Topology, Failure>> + Send>>;

/// Locks on a Redis Cluster.
pub(crate) struct ClusterStore {
    router: Router,
    nodes: Nodes,
    clock: Clock,
    io_timeout: Duration,
    seeds: Vec<Server>,
    replicas: Vec<Server>,
    /// The pending read of the slot map.
    reading: Option<Reading>,
    last_read: Instant,
    /// True if a node's answer has shown, since the last read began, that the map may be out of
    /// date.
    doubted: bool,
    /// The cluster's epoch at the time of the current slot map.
    generation: u64,
    /// Zero while nothing shows that the map is out of date. Otherwise 1, plus one for each read
    /// that did not correct the map.
    failed_reads: u32,
    /// Number of nodes asked in all reads so far. The next read continues with the nodes after
    /// these.
    asked: usize,
    timer: Pin<Box<Sleep>>,
    /// True if requests were submitted, or passed to the nodes, since the nodes were last polled.
    unsent: bool,
}

impl ClusterStore {
    /// Finds the masters and connects to all of them at once. Fails if none can be reached, or if
    /// one fails for a reason that an operator must fix. Otherwise, the store keeps trying to reach
    /// the missing masters.
    pub(crate) async fn connect(address: Address, options: &Options) -> Result<Self, LockError> {
        let Address { like, seeds, .. } = address;
        let topology = Topology::newest(seeds.clone(), options.io_timeout).await;
        let topology = topology.map_err(|failure| failure.error)?;
        let access = Access {
            like,
            names: KeyNames::of(options),
            options: options.clone(),
        };
        let mut store = Self {
            router: Router::new(),
            nodes: Nodes::new(access),
            clock: options.clock,
            io_timeout: options.io_timeout,
            seeds,
            replicas: Vec::new(),
            reading: None,
            last_read: Instant::now(),
            doubted: false,
            generation: 0,
            failed_reads: 0,
            asked: 0,
            timer: Box::pin(sleep(Duration::ZERO)),
            unsent: false,
        };
        for finding in check::whole(&topology) {
            reporter::log(move || tracing::warn!(code = finding.code, "{finding}"));
        }
        store.meet(&topology).await?;
        store.learn(&topology);
        Ok(store)
    }

    /// Checks the cluster and each master, over separate connections.
    pub(crate) async fn check(
        address: Address,
        options: &Options,
    ) -> Result<CheckReport, LockError> {
        check::check(address, options).await
    }

    /// Connects to the masters of `topology`. Fails if none can be reached, or if one fails for a
    /// reason that an operator must fix.
    async fn meet(&mut self, topology: &Topology) -> Result<(), LockError> {
        let masters = topology.one_slot_each();
        let starting = masters.iter().map(|(endpoint, slot)| {
            let (master, names, options) = self.nodes.access().master(endpoint, *slot);
            async move { RedisStore::start_as(master, names, &options).await }
        });
        let started = join_all(starting).await;
        let (mut reached, mut error) = (false, None);
        for ((endpoint, _), (store, connected)) in masters.iter().zip(started) {
            let node = self.nodes.find(endpoint);
            self.nodes.adopt(node, store);
            match connected {
                Ok(()) => reached = true,
                Err(failure) if failure.retry == Retry::Never => return Err(failure.error),
                Err(failure) => {
                    let reason = failure.error.clone();
                    reporter::log(move || {
                        tracing::warn!(
                            error = %reason,
                            "a master of the cluster cannot be reached; trying again later"
                        );
                    });
                    error = Some(failure.error);
                }
            }
        }
        match error {
            Some(error) if !reached => Err(error),
            _ => Ok(()),
        }
    }

    fn learn(&mut self, topology: &Topology) {
        let mut map = Map::new();
        for (slots, endpoint) in &topology.masters {
            let node = self.nodes.find(endpoint);
            for slot in slots.clone() {
                map.set(slot, node);
            }
        }
        self.generation = topology.generation();
        self.nodes.follow(&map);
        self.router.learn(map);
        let replicas = topology.replicas.iter();
        self.replicas = replicas
            .map(|replica| self.nodes.access().server(replica))
            .collect();
    }

    /// Reads the slot map again if the next read is due. Returns true if a read began or ended.
    fn poll_map(&mut self, cx: &mut Context<'_>) -> bool {
        let stale = self.router.take_stale();
        self.doubted |= stale;
        if stale || self.nodes.misses(self.router.map()) {
            self.failed_reads = self.failed_reads.max(1);
        }
        let mut moved = false;
        if self.reading.is_none() && self.last_read + self.pause() <= Instant::now() {
            self.last_read = Instant::now();
            self.doubted = false;
            self.reading = Some(Box::pin(Topology::newest(
                self.next_asked(),
                self.io_timeout,
            )));
            moved = true;
        }
        let read = self
            .reading
            .as_mut()
            .map(|reading| reading.as_mut().poll(cx));
        if let Some(Poll::Ready(read)) = read {
            self.reading = None;
            self.read(read);
            moved = true;
        }
        moved
    }

    fn read(&mut self, read: Result<Topology, Failure>) {
        let well = match read {
            Ok(topology)
                if topology.is_older_than(self.generation) && self.failed_reads < OLDER =>
            {
                false
            }
            // Ignores a map without masters: the node that reported it has just left the cluster,
            // or has not joined it yet.
            Ok(topology) if !topology.masters.is_empty() => {
                self.learn(&topology);
                topology.uncovered() == 0 && !self.nodes.misses(self.router.map())
            }
            Ok(_) => false,
            Err(failure) => {
                reporter::log(
                    move || tracing::debug!(error = %failure.error, "the cluster's map cannot be read"),
                );
                false
            }
        };
        self.failed_reads = match (well, self.doubted) {
            (true, false) => 0,
            (true, true) => 1,
            (false, _) => self.failed_reads.saturating_add(1),
        };
    }

    fn pause(&self) -> Duration {
        if self.failed_reads == 0 {
            return PERIOD;
        }
        let (first, longest) = PAUSE;
        first
            .saturating_mul(1 << (self.failed_reads - 1).min(10))
            .min(longest)
    }

    /// Returns the nodes to ask in the next read of the slot map: [`ASKED`] of all nodes, in turn.
    fn next_asked(&mut self) -> Vec<Server> {
        let mut all: Vec<_> = self.nodes.servers().collect();
        all.extend_from_slice(&self.replicas);
        all.extend_from_slice(&self.seeds);
        let from = self.asked % all.len();
        self.asked += ASKED;
        all.rotate_left(from);
        all.truncate(ASKED);
        all
    }

    /// Passes the nodes' events to the router. Returns true if there were any.
    fn listen(&mut self, cx: &mut Context<'_>) -> bool {
        let mut received = false;
        while let Some((node, event)) = self.nodes.poll(cx) {
            received = true;
            match event {
                StoreEvent::Reply(id, result) => {
                    let hint = self.nodes.hint(node, id);
                    let now = self.clock.now();
                    self.router.answer(id, result, hint, now);
                }
                event => self.router.receive(node, event),
            }
        }
        received
    }

    fn flush(&mut self) -> bool {
        let outbox = self.router.take_outbox();
        let sent = !outbox.is_empty();
        self.nodes.send(outbox);
        self.unsent |= sent;
        self.nodes.settle(&self.router.take_settled());
        sent
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let now = self.clock.now();
        let mut next = if self.reading.is_some() {
            Instant::now() + PERIOD
        } else {
            self.last_read + self.pause()
        };
        if let Some(due) = self.router.next_due() {
            if due <= now {
                self.router.tick(now);
                return true;
            }
            next = next.min(Instant::now() + due.since(now));
        }
        // An earlier deadline is kept, because a reset costs more than one needless wake-up.
        if next < self.timer.deadline() || self.timer.is_elapsed() {
            self.timer.as_mut().reset(next);
        }
        self.timer.as_mut().poll(cx).is_ready()
    }
}

impl LockStore for ClusterStore {
    fn submit(&mut self, batch: &mut Vec<Request>) {
        self.unsent = true;
        let now = self.clock.now();
        for request in batch.drain(..) {
            self.router.submit(request, now);
        }
        self.flush();
    }

    /// True if a master cannot be reached. Locks with keys in its slots then cannot be taken.
    fn is_away(&self) -> bool {
        self.nodes.are_away(self.router.map())
    }

    /// Returns the error of the master that has the key's slot, if this master is away. For a
    /// reserved key, which a readiness probe uses, checks every master.
    fn absence(&self, key: &FullKey) -> Option<LockError> {
        let map = self.router.map();
        if key.name().starts_with(RESERVED) {
            return self.nodes.any_absence(map);
        }
        self.nodes.absence(map.owner(hash_slot::of(key))?)
    }

    fn sockets(&mut self) -> Option<Vec<Arc<dyn Socket>>> {
        self.nodes.sockets()
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent> {
        // After a submit, the nodes are polled before an event is returned. This poll sends the
        // submitted requests.
        loop {
            if !std::mem::take(&mut self.unsent)
                && let Some(event) = self.router.next_event()
            {
                return Poll::Ready(event);
            }
            let received = self.listen(cx);
            let read = self.poll_map(cx);
            let due = self.poll_timer(cx);
            let sent = self.flush();
            if !(received || read || due || sent) {
                return self.router.next_event().map_or(Poll::Pending, Poll::Ready);
            }
        }
    }
}
