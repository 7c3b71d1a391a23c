//! The pure core: requests, answers of nodes and the time go in, requests to nodes and answers come out.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::mem;
use std::time::Duration;

use super::map::{Map, NodeId};
use super::split_renewals::{Part, Wholes};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::store::redis::commands::redirect::RequestFlags;
use crate::store::redis::commands::{hash_slot, reply};
use crate::store::{Failure, Op, OpId, Renewal, Reply, Request, Retry, StoreEvent};

/// So often a request is sent on without a pause. Where nodes disagree for longer, it fails and is tried again later.
const MOST_HOPS: u32 = 5;

/// A request as it goes to a node.
#[derive(Debug)]
pub(super) struct Directed {
    pub(super) node: NodeId,
    pub(super) request: Request,
    pub(super) manner: RequestFlags,
}

/// A node's hint where a slot is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hint {
    pub(super) slot: u16,
    pub(super) node: NodeId,
    /// For this request only.
    pub(super) once: bool,
}

/// A request under way.
struct Errand {
    request: Request,
    slot: u16,
    manner: RequestFlags,
    hops: u32,
    /// Its removal was sent, so it must not be sent again behind that.
    given_up: bool,
    part: Option<Part>,
}

impl Errand {
    fn new(request: Request, slot: u16, part: Option<Part>) -> Self {
        Self {
            request,
            slot,
            manner: RequestFlags::default(),
            hops: 0,
            given_up: false,
            part,
        }
    }
}

/// Which node is asked for what.
pub(super) struct Router {
    map: Map,
    errands: HashMap<OpId, Errand>,
    wholes: Wholes,
    outbox: Vec<Directed>,
    events: VecDeque<StoreEvent>,
    /// Acquires whose removal was carried out.
    settled: Vec<OpId>,
    /// Parts have ids of our own, counted down from the end, where the engine's never come.
    next_own: u64,
    /// Whether an answer says that the map is not what it was.
    stale: bool,
    /// Whether somebody was told to try again later.
    troubled: bool,
}

impl Router {
    pub(super) fn new() -> Self {
        Self {
            map: Map::new(),
            errands: HashMap::new(),
            wholes: Wholes::default(),
            outbox: Vec::new(),
            events: VecDeque::new(),
            settled: Vec::new(),
            next_own: u64::MAX,
            stale: false,
            troubled: false,
        }
    }

    pub(super) fn map(&self) -> &Map {
        &self.map
    }

    /// A new map was read.
    pub(super) fn learn(&mut self, map: Map) {
        if map != self.map && mem::take(&mut self.troubled) {
            // What waits for the old owner of a slot need not wait longer.
            self.events.push_back(StoreEvent::Connected);
        }
        self.map = map;
    }

    /// Whether the map should be read again, which is said once.
    pub(super) fn take_stale(&mut self) -> bool {
        mem::take(&mut self.stale)
    }

    pub(super) fn take_outbox(&mut self) -> Vec<Directed> {
        mem::take(&mut self.outbox)
    }

    /// The acquires whose removal was carried out, by whichever node.
    pub(super) fn take_settled(&mut self) -> Vec<OpId> {
        mem::take(&mut self.settled)
    }

    pub(super) fn next_event(&mut self) -> Option<StoreEvent> {
        self.events.pop_front()
    }

    /// A request of the engine.
    pub(super) fn submit(&mut self, request: Request, now: Instant) {
        let key = match &request.op {
            Op::Renew(renewals) | Op::Stay(renewals) => {
                let renewals = renewals.clone();
                return self.renew(request, &renewals, now);
            }
            Op::Release { key, after, .. } | Op::Part { key, after, .. } => {
                for open in after {
                    self.give_up(*open);
                }
                key
            }
            Op::AcquireAll { keys, .. } => {
                let Some(key) = together(keys) else {
                    let apart = StoreEvent::Reply(request.id, Ok(Reply::Apart));
                    return self.events.push_back(apart);
                };
                key
            }
            Op::Acquire { key, .. } | Op::Join { key, .. } | Op::Leave { key } => key,
        };
        let slot = hash_slot::of(key);
        self.start(Errand::new(request, slot, None));
    }

    /// A script may touch one slot only, so each slot gets its own.
    fn renew(&mut self, request: Request, renewals: &[Renewal], now: Instant) {
        let mut by_slot: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (place, renewal) in renewals.iter().enumerate() {
            let places = by_slot.entry(hash_slot::of(&renewal.key)).or_default();
            places.push(place);
        }
        if let Some((slot, _)) = by_slot.first_key_value().filter(|_| by_slot.len() == 1) {
            return self.start(Errand::new(request, *slot, None));
        }
        let Request { id, op, patience } = request;
        self.wholes
            .begin(id, renewals.len(), by_slot.len(), now + patience);
        for (slot, places) in by_slot {
            let own = places.iter().map(|place| renewals[*place].clone());
            let own = self.part_of(&op, own.collect(), patience);
            self.start(Errand::new(own, slot, Some(Part { whole: id, places })));
        }
    }

    fn start(&mut self, errand: Errand) {
        if let Some(node) = self.map.owner(errand.slot) {
            self.send(node, errand);
        } else {
            self.finish(&errand, Err(nobody(errand.slot)));
        }
    }

    fn send(&mut self, node: NodeId, errand: Errand) {
        let id = errand.request.id;
        self.outbox.push(Directed {
            node,
            request: errand.request.clone(),
            manner: errand.manner,
        });
        self.errands.insert(id, errand);
    }

    /// An acquire whose removal follows is not sent on any more.
    fn give_up(&mut self, acquire: OpId) {
        if let Some(errand) = self.errands.get_mut(&acquire) {
            errand.given_up = true;
        }
    }

    /// What a node answered, and where it says that the slot is.
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
        let Some(mut errand) = self.errands.remove(&id) else {
            return;
        };
        let Err(failure) = &result else {
            return self.finish(&errand, result);
        };
        if errand.hops >= MOST_HOPS || errand.given_up {
            return self.finish(&errand, result);
        }
        errand.hops += 1;
        let owner = self.map.owner(errand.slot);
        match (hint, failure.code(), &errand.request.op) {
            (Some(hint), ..) => {
                errand.manner.asking = hint.once;
                self.send(hint.node, errand);
            }
            // On a slot's way some of its keys are here and some there. A lease cannot wait for the end of it.
            (None, "TRYAGAIN", Op::Renew(all) | Op::Stay(all)) if all.len() > 1 => {
                self.take_apart(errand, now);
            }
            (None, "TRYAGAIN", Op::Stay(_)) if !errand.manner.without_queue && owner.is_some() => {
                errand.manner = RequestFlags {
                    without_queue: true,
                    asking: false,
                    ..RequestFlags::default()
                };
                self.start(errand);
            }
            _ => self.finish(&errand, result),
        }
    }

    /// Sends renewals of one slot again, one by one.
    fn take_apart(&mut self, errand: Errand, now: Instant) {
        let Request { id, op, patience } = errand.request;
        let (Op::Renew(renewals) | Op::Stay(renewals)) = &op else {
            return;
        };
        let part = errand.part.unwrap_or_else(|| {
            self.wholes.begin(id, renewals.len(), 1, now + patience);
            Part {
                whole: id,
                places: (0..renewals.len()).collect(),
            }
        });
        self.wholes.split(&part);
        for (renewal, place) in renewals.iter().zip(&part.places) {
            let part = Part {
                whole: part.whole,
                places: vec![*place],
            };
            let own = self.part_of(&op, vec![renewal.clone()], patience);
            self.start(Errand {
                hops: errand.hops,
                ..Errand::new(own, errand.slot, Some(part))
            });
        }
    }

    fn part_of(&mut self, op: &Op, renewals: Vec<Renewal>, patience: Duration) -> Request {
        self.next_own -= 1;
        let op = match op {
            Op::Stay(_) => Op::Stay(renewals),
            _ => Op::Renew(renewals),
        };
        Request {
            id: OpId(self.next_own),
            op,
            patience,
        }
    }

    fn finish(&mut self, errand: &Errand, result: Result<Reply, Failure>) {
        if let (Op::Release { after, .. } | Op::Part { after, .. }, Ok(_)) =
            (&errand.request.op, &result)
        {
            self.settled.extend(after);
        }
        let result = result.map_err(|failure| self.trouble(failure));
        let id = errand.request.id;
        let answer = match &errand.part {
            None => Some((id, result)),
            Some(part) => {
                let whole = part.whole;
                self.wholes
                    .answered(part, result)
                    .map(|answer| (whole, answer))
            }
        };
        if let Some((id, result)) = answer {
            self.events.push_back(StoreEvent::Reply(id, result));
        }
    }

    /// A failure as the engine is to see it.
    fn trouble(&mut self, failure: Failure) -> Failure {
        self.troubled |= failure.retry != Retry::Never;
        match failure.code() {
            "MOVED" | "ASK" => {
                self.stale = true;
                self.troubled = true;
                sent_around(&failure)
            }
            // The node may not be the master any more, or not be there.
            "io" | "timeout" | "CLUSTERDOWN" | "MASTERDOWN" | "READONLY" | "LOADING" => {
                self.stale = true;
                failure
            }
            _ => failure,
        }
    }

    /// Answers what cannot wait longer.
    pub(super) fn tick(&mut self, now: Instant) {
        for (id, answer) in self.wholes.overdue(now) {
            self.events.push_back(StoreEvent::Reply(id, answer));
        }
    }

    /// When to tick next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.wholes.next_due()
    }

    /// A node said something about a key unasked. All nodes pass messages on to each other, so each comes once from every node; that of
    /// the one that has the key counts.
    pub(super) fn heard(&mut self, node: NodeId, event: StoreEvent) {
        let counts = match &event {
            StoreEvent::Turn(key) | StoreEvent::Wanted(key) => {
                self.map.owner(hash_slot::of(key)) == Some(node)
            }
            // All leases are renewed then, so a node that comes and goes without a slot should not cause it.
            StoreEvent::Connected => self.map.names(node),
            StoreEvent::Reply(..) => true,
        };
        if counts {
            self.events.push_back(event);
        }
    }
}

/// One of the keys, if all are in one slot: then one script may touch them.
fn together(keys: &[(FullKey, Token)]) -> Option<&FullKey> {
    let mut keys = keys.iter().map(|(key, _)| key);
    let first = keys.next()?;
    let home = hash_slot::of(first);
    keys.all(|key| hash_slot::of(key) == home).then_some(first)
}

fn nobody(slot: u16) -> Failure {
    later(
        "CLUSTERDOWN",
        format!("no node of the cluster has the slot {slot} of this key; look at CLUSTER INFO"),
    )
}

fn sent_around(failure: &Failure) -> Failure {
    let code = if failure.code() == "ASK" {
        "ASK"
    } else {
        "MOVED"
    };
    later(
        code,
        "the nodes of the cluster do not agree on where this key's slot is; it is on its way, or a fail-over is under way".to_owned(),
    )
}

fn later(code: &'static str, text: String) -> Failure {
    reply::failure(code, text, Retry::Later, false)
}
