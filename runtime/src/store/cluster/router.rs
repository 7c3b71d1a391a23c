//! The decisions of the cluster store, without I/O. The inputs are the engine's requests, the
//! nodes' answers and the time. The outputs are requests to nodes and answers to the engine.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::mem;
use std::time::Duration;

use super::map::{Map, NodeId};
use super::split_renewals::{Fragment, SplitRenewals};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::store::redis::commands::hash_slot;
use crate::store::redis::commands::redirect::RequestFlags;
use crate::store::{Failure, Op, OpId, Renewal, Reply, Request, Retry, StoreEvent, Take};

/// Maximum number of redirects that a request follows without a pause. If the nodes still disagree,
/// the request fails, and the engine retries it later.
const MOST_HOPS: u32 = 5;

/// A request, and the node to which it is sent.
#[derive(Debug)]
pub(super) struct Directed {
    pub(super) node: NodeId,
    pub(super) request: Request,
    pub(super) flags: RequestFlags,
}

/// A node's redirect, which names the new node of a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hint {
    pub(super) slot: u16,
    pub(super) node: NodeId,
    /// True if the redirect applies only to the request that it answers.
    pub(super) once: bool,
}

/// A pending request.
struct Routed {
    request: Request,
    slot: u16,
    flags: RequestFlags,
    hops: u32,
    /// True if this is an acquire, and the request that removes its key was already sent. The
    /// acquire must not be sent again, because it could take the key after the removal.
    given_up: bool,
    fragment: Option<Fragment>,
}

impl Routed {
    fn new(request: Request, slot: u16, fragment: Option<Fragment>) -> Self {
        Self {
            request,
            slot,
            flags: RequestFlags::default(),
            hops: 0,
            given_up: false,
            fragment,
        }
    }
}

/// Decides which node gets which request.
pub(super) struct Router {
    map: Map,
    in_flight: HashMap<OpId, Routed>,
    split: SplitRenewals,
    outbox: Vec<Directed>,
    events: VecDeque<StoreEvent>,
    /// Acquires whose keys a node has removed since the last `take_settled`.
    settled: Vec<OpId>,
    /// The id last given to a part of a split batch. These ids count down from the highest number,
    /// so they never equal an id of the engine.
    last_own_id: u64,
    /// True if an answer has shown that the map may be out of date.
    stale: bool,
    /// True if a request has failed since the last change of the map, and the engine must retry it
    /// later.
    troubled: bool,
}

impl Router {
    pub(super) fn new() -> Self {
        Self {
            map: Map::new(),
            in_flight: HashMap::new(),
            split: SplitRenewals::default(),
            outbox: Vec::new(),
            events: VecDeque::new(),
            settled: Vec::new(),
            last_own_id: u64::MAX,
            stale: false,
            troubled: false,
        }
    }

    pub(super) fn map(&self) -> &Map {
        &self.map
    }

    /// Replaces the map.
    pub(super) fn learn(&mut self, map: Map) {
        if map != self.map && mem::take(&mut self.troubled) {
            // The engine delays the retry of a failed request. `Connected` ends this delay, because
            // the slot may have a new owner.
            self.events.push_back(StoreEvent::Connected);
        }
        self.map = map;
    }

    /// True if an answer has shown since the last call that the map may be out of date.
    pub(super) fn take_stale(&mut self) -> bool {
        mem::take(&mut self.stale)
    }

    pub(super) fn take_outbox(&mut self) -> Vec<Directed> {
        mem::take(&mut self.outbox)
    }

    /// Returns the acquires whose keys a node has removed since the last call.
    pub(super) fn take_settled(&mut self) -> Vec<OpId> {
        mem::take(&mut self.settled)
    }

    pub(super) fn next_event(&mut self) -> Option<StoreEvent> {
        self.events.pop_front()
    }

    /// Chooses the node for a request of the engine.
    pub(super) fn submit(&mut self, request: Request, now: Instant) {
        let key = match &request.op {
            Op::Keep { renewals, .. } => {
                let renewals = renewals.clone();
                return self.renew(request, &renewals, now);
            }
            Op::Give(give) => {
                for open in &give.after {
                    self.give_up(*open);
                }
                &give.key
            }
            Op::TakeAll { keys, .. } => {
                let Some(key) = any_key_if_one_slot(keys) else {
                    let answer = StoreEvent::Reply(request.id, Ok(Reply::Apart));
                    return self.events.push_back(answer);
                };
                key
            }
            Op::Take(Take { key, .. })
            | Op::Leave { key }
            | Op::Forget { key }
            | Op::Adopt { key, .. } => key,
        };
        let slot = hash_slot::of(key);
        self.start(Routed::new(request, slot, None));
    }

    /// Splits renewals by slot, because a script may only use keys of one slot.
    fn renew(&mut self, request: Request, renewals: &[Renewal], now: Instant) {
        let mut by_slot: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (index, renewal) in renewals.iter().enumerate() {
            let indexes = by_slot.entry(hash_slot::of(&renewal.key)).or_default();
            indexes.push(index);
        }
        if let Some((slot, _)) = by_slot.first_key_value().filter(|_| by_slot.len() == 1) {
            return self.start(Routed::new(request, *slot, None));
        }
        let Request { id, op, patience } = request;
        self.split
            .begin(id, renewals.len(), by_slot.len(), now + patience);
        for (slot, indexes) in by_slot {
            let own = indexes.iter().map(|index| renewals[*index].clone());
            let own = self.fragment_of(&op, own.collect(), patience);
            self.start(Routed::new(
                own,
                slot,
                Some(Fragment { batch: id, indexes }),
            ));
        }
    }

    fn start(&mut self, routed: Routed) {
        if let Some(node) = self.map.owner(routed.slot) {
            self.send(node, routed);
        } else {
            self.finish(&routed, Err(no_owner(routed.slot)));
        }
    }

    fn send(&mut self, node: NodeId, routed: Routed) {
        let id = routed.request.id;
        self.outbox.push(Directed {
            node,
            request: routed.request.clone(),
            flags: routed.flags,
        });
        self.in_flight.insert(id, routed);
    }

    /// Marks an acquire whose key a later request removes, so that a redirect does not send the
    /// acquire again after the removal.
    fn give_up(&mut self, acquire: OpId) {
        if let Some(routed) = self.in_flight.get_mut(&acquire) {
            routed.given_up = true;
        }
    }

    /// Handles a node's answer, and the redirect that came with it, if any.
    pub(super) fn answer(
        &mut self,
        id: OpId,
        result: Result<Reply, Failure>,
        hint: Option<Hint>,
        now: Instant,
    ) {
        if let Some(Hint { slot, node, .. }) = hint.filter(|hint| !hint.once) {
            self.map.set(slot, node);
            self.stale = true;
        }
        let Some(mut routed) = self.in_flight.remove(&id) else {
            return;
        };
        let Err(failure) = &result else {
            return self.finish(&routed, result);
        };
        if routed.hops >= MOST_HOPS || routed.given_up {
            return self.finish(&routed, result);
        }
        routed.hops += 1;
        let owner = self.map.owner(routed.slot);
        match (hint, failure.code(), &routed.request.op) {
            (Some(hint), ..) => {
                routed.flags.asking = hint.once;
                self.send(hint.node, routed);
            }
            // `TRYAGAIN` means that the slot is moving: some of its keys are on the old node and
            // some on the new one. A lease may expire before the move ends, so each key is then
            // renewed individually. If a single share gets this answer, it is renewed without
            // access to its queue, because the queue's key may be on the other node.
            (None, "TRYAGAIN", Op::Keep { renewals, .. }) if renewals.len() > 1 => {
                self.renew_individually(routed, now);
            }
            (None, "TRYAGAIN", Op::Keep { shares: true, .. })
                if !routed.flags.without_queue && owner.is_some() =>
            {
                routed.flags = RequestFlags {
                    without_queue: true,
                    asking: false,
                    ..RequestFlags::default()
                };
                self.start(routed);
            }
            _ => self.finish(&routed, result),
        }
    }

    /// Sends the renewals of one slot again, each key in a separate request.
    fn renew_individually(&mut self, routed: Routed, now: Instant) {
        let Request { id, op, patience } = routed.request;
        let Op::Keep { renewals, .. } = &op else {
            return;
        };
        let fragment = routed.fragment.unwrap_or_else(|| {
            self.split.begin(id, renewals.len(), 1, now + patience);
            Fragment {
                batch: id,
                indexes: (0..renewals.len()).collect(),
            }
        });
        self.split.split(&fragment);
        for (renewal, index) in renewals.iter().zip(&fragment.indexes) {
            let fragment = Fragment {
                batch: fragment.batch,
                indexes: vec![*index],
            };
            let own = self.fragment_of(&op, vec![renewal.clone()], patience);
            self.start(Routed {
                hops: routed.hops,
                ..Routed::new(own, routed.slot, Some(fragment))
            });
        }
    }

    fn fragment_of(&mut self, op: &Op, renewals: Vec<Renewal>, patience: Duration) -> Request {
        self.last_own_id -= 1;
        let shares = matches!(op, Op::Keep { shares: true, .. });
        Request {
            id: OpId(self.last_own_id),
            op: Op::Keep { renewals, shares },
            patience,
        }
    }

    fn finish(&mut self, routed: &Routed, result: Result<Reply, Failure>) {
        if let (Op::Give(give), Ok(_)) = (&routed.request.op, &result) {
            self.settled.extend(&give.after);
        }
        let result = result.map_err(|failure| self.trouble(failure));
        let id = routed.request.id;
        let answer = match &routed.fragment {
            None => Some((id, result)),
            Some(fragment) => {
                let batch = fragment.batch;
                self.split
                    .answered(fragment, result)
                    .map(|answer| (batch, answer))
            }
        };
        if let Some((id, result)) = answer {
            self.events.push_back(StoreEvent::Reply(id, result));
        }
    }

    /// Sets `troubled` if the engine must retry after this failure, and `stale` if the map may be
    /// out of date. Returns the failure for the engine.
    fn trouble(&mut self, failure: Failure) -> Failure {
        self.troubled |= failure.retry != Retry::Never;
        match failure.code() {
            "MOVED" | "ASK" => {
                self.stale = true;
                self.troubled = true;
                redirected_too_often(&failure)
            }
            // The node may be down, or may no longer be the master.
            "io" | "timeout" | "CLUSTERDOWN" | "MASTERDOWN" | "READONLY" | "LOADING" => {
                self.stale = true;
                failure
            }
            _ => failure,
        }
    }

    /// Answers the split batches whose time is up.
    pub(super) fn tick(&mut self, now: Instant) {
        for (id, answer) in self.split.overdue(now) {
            self.events.push_back(StoreEvent::Reply(id, answer));
        }
    }

    /// Returns the time at which `tick` must be called next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.split.next_due()
    }

    /// Handles an event other than a reply. The nodes forward published messages to each other, so
    /// every node delivers each message. Only the message from the node with the key's slot counts.
    pub(super) fn receive(&mut self, node: NodeId, event: StoreEvent) {
        let counts = match &event {
            StoreEvent::Turn(key) | StoreEvent::Wanted(key) | StoreEvent::Revoked { key, .. } => {
                self.map.owner(hash_slot::of(key)) == Some(node)
            }
            // The engine renews all leases on `Connected`. The reconnection of a node without slots
            // must not cause these renewals.
            StoreEvent::Connected | StoreEvent::Away => self.map.names(node),
            StoreEvent::Reply(..) => true,
            // Redis nodes have no sessions.
            #[cfg(feature = "__session")]
            StoreEvent::Lost(_) => true,
        };
        if counts {
            self.events.push_back(event);
        }
    }
}

/// Returns one of the keys if all keys are in one slot. A script can use several keys only if they
/// are in one slot.
fn any_key_if_one_slot(keys: &[(FullKey, Token)]) -> Option<&FullKey> {
    let mut keys = keys.iter().map(|(key, _)| key);
    let first = keys.next()?;
    let slot = hash_slot::of(first);
    keys.all(|key| hash_slot::of(key) == slot).then_some(first)
}

fn no_owner(slot: u16) -> Failure {
    later(
        "CLUSTERDOWN",
        format!("no node of the cluster has the slot {slot} of this key; look at CLUSTER INFO"),
    )
}

fn redirected_too_often(failure: &Failure) -> Failure {
    let code = if failure.code() == "ASK" {
        "ASK"
    } else {
        "MOVED"
    };
    later(
        code,
        "the nodes of the cluster do not agree on where this key's slot is; it is being moved, or \
         a fail-over is in progress"
            .to_owned(),
    )
}

fn later(code: &'static str, text: String) -> Failure {
    Failure::unavailable(code, text, Retry::Later, false)
}
