//! The simulated world: processes (called nodes), callers, a server, and the schedule of events.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::make_way::Use;
use super::random::Random;
use crate::base::clock::Instant;
use crate::base::full_key::{FullKey, KeyMap};
use crate::base::token::Token;
use crate::engine::core::Core;
use crate::engine::core::signal::Limits;
use crate::engine::core::ticket::{Replay, TicketId};
use crate::fence::Fence;
use crate::selftest::seeded_bugs::Bug;
use crate::store::kept::Kept;
use crate::store::{Failure, OpId, Reply, Request};

pub(super) const CORES: usize = 3;
pub(super) const KEYS: u64 = 2;
pub(super) const CALLS: u64 = 40;
pub(super) const START: Instant = Instant::from_nanos(1_000_000_000);
/// A ttl of 1,000 ms lasts 991 ms at the server, because the server's clock runs faster than the
/// processes' clock. The difference is slightly less than the drift that leases allow for.
pub(super) const SERVER_TTL_PER_MILLE: u32 = 991;
pub(super) const IO_TIMEOUT: Duration = Duration::from_secs(1);
pub(super) const MAKE_WAY_AFTER: Duration = Duration::from_millis(150);

/// The violations found in a run, and the numbers of its events.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) violations: Vec<String>,
    pub(super) granted: usize,
    /// Grants to a reader while another reader has the lock.
    pub(super) shared: usize,
    /// Exclusive locks that became shares.
    pub(super) downgraded: usize,
    /// Locks handed over inside a process, without a request.
    pub(super) handed_over: usize,
    /// Grants after a pause in which the key was left free for other clients.
    pub(super) ways: usize,
    /// Calls that requested all their locks at once and got them.
    pub(super) all_at_once: usize,
    /// Tickets with the signal `Apart`. A real call would now request their locks individually.
    pub(super) individually: usize,
    /// Locks kept after the end of the body.
    pub(super) kept: usize,
    /// Results stored at the server.
    pub(super) recorded: usize,
    /// Calls that a kept result answered.
    pub(super) recalled: usize,
    pub(super) refused: usize,
    pub(super) lost: usize,
    pub(super) cuts: usize,
    pub(super) pauses: usize,
}

impl Outcome {
    /// Adds the counts of another run.
    pub(super) fn add(&mut self, other: &Self) {
        self.granted += other.granted;
        self.shared += other.shared;
        self.downgraded += other.downgraded;
        self.handed_over += other.handed_over;
        self.ways += other.ways;
        self.all_at_once += other.all_at_once;
        self.individually += other.individually;
        self.kept += other.kept;
        self.recorded += other.recorded;
        self.recalled += other.recalled;
        self.refused += other.refused;
        self.lost += other.lost;
        self.cuts += other.cuts;
        self.pauses += other.pauses;
    }
}

/// A scheduled event. A `usize` is a node, and a `u64` behind it the generation of its connection.
#[derive(Debug)]
pub(super) enum Happening {
    /// A caller requests a lock from a core.
    Call(usize),
    /// A caller ends its work or gives up waiting.
    End(usize, TicketId),
    /// A caller turns its exclusive lock into a share.
    Downgrade(usize, TicketId),
    /// A request arrives at the server.
    Arrive(usize, u64, Request),
    /// An answer arrives at a core.
    Answer(usize, u64, OpId, Result<Reply, Failure>),
    /// A message from the server arrives at a core.
    Delivered(usize, u64, Message),
    /// A core's connection breaks.
    Cut(usize),
    Connected(usize),
    /// A core's timer goes off.
    Tick(usize),
    /// An operator deletes a held key.
    Steal(u64),
    /// A core's process is suspended until this time.
    Pause(usize, Instant),
}

/// A message that the server sends without a request.
#[derive(Debug, Clone)]
pub(super) enum Message {
    Called(FullKey),
    Wanted(FullKey),
}

pub(super) struct Entry {
    pub(super) holder: Holder,
    pub(super) node: usize,
    pub(super) expires: Instant,
}

pub(super) enum Holder {
    Token {
        token: Token,
        fence: Fence,
        reserved_fences: u32,
    },
    /// Reserved for a process that has not asked for the key yet.
    Handed,
    /// Kept for a time after its release. The last holder had this token.
    Kept(Token),
    /// The readers' tokens, each with the end of its share.
    Shared(HashMap<Token, Instant>),
}

impl Entry {
    pub(super) fn token(&self) -> Option<Token> {
        match self.holder {
            Holder::Token { token, .. } => Some(token),
            Holder::Handed | Holder::Kept(_) | Holder::Shared(_) => None,
        }
    }

    /// True if `token` has the key or a share of it.
    pub(super) fn is_of(&self, token: Token, now: Instant) -> bool {
        match &self.holder {
            Holder::Token { token: held, .. } => *held == token && now < self.expires,
            Holder::Shared(shares) => shares.get(&token).is_some_and(|end| now < *end),
            Holder::Handed | Holder::Kept(_) => false,
        }
    }
}

/// A caller of one lock, with the state that a lease cell has in the real code.
pub(super) struct Caller {
    pub(super) key: FullKey,
    pub(super) token: Token,
    pub(super) budget_end: Instant,
    pub(super) ttl: Duration,
    pub(super) reads: bool,
    pub(super) arrived: Instant,
    /// All tickets of the same call; empty if the call has only one lock.
    pub(super) mates: Vec<TicketId>,
    pub(super) max_hold: Option<Duration>,
    /// Time at which `max_hold` ends the lease. Set at the grant.
    pub(super) give_up_at: Option<Instant>,
    /// Least time for which the lock must stay taken, counted from the body's start.
    pub(super) min_hold: Option<Duration>,
    /// End of `min_hold`. Set when the body starts.
    pub(super) stays_until: Option<Instant>,
    /// Time until which no other call may get the lock. Set when the body ends.
    pub(super) kept_until: Option<Instant>,
    /// The calling function. Only a result of the same function can answer the call.
    pub(super) function: &'static str,
    /// Parameters of a `replay` call.
    pub(super) replay: Option<Replay>,
    pub(super) state: State,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    /// The body runs, and may be polled until this time.
    Inside(Instant),
    Over(Instant),
}

pub(super) struct Node {
    pub(super) core: Core,
    pub(super) generation: u64,
    pub(super) connected: bool,
    /// Requests without an answer on the current connection.
    pub(super) open: BTreeMap<OpId, Request>,
    /// Acquires without an answer, each with the generation (the number) of its connection.
    pub(super) acquires: HashMap<OpId, u64>,
    /// Time at which the last message arrives at the server. A later message on the same connection
    /// must not arrive earlier.
    pub(super) to_server: Instant,
    /// Time at which the last message arrives at the core. Later messages must not overtake it.
    pub(super) to_core: Instant,
    pub(super) paused_until: Instant,
    pub(super) callers: BTreeMap<TicketId, Caller>,
    pub(super) next_ticket: u64,
    pub(super) next_tick: Option<Instant>,
}

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) random: Random,
    pub(super) happenings: BinaryHeap<Reverse<(Instant, u64)>>,
    pub(super) bodies: HashMap<u64, Happening>,
    pub(super) last: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) entries: KeyMap<Entry>,
    /// The processes that queue for a key, each with the time of its last request.
    pub(super) queues: KeyMap<VecDeque<(usize, Instant)>>,
    pub(super) last_fence: u64,
    pub(super) fences: KeyMap<Fence>,
    /// The last fence granted for each key.
    pub(super) granted: KeyMap<Fence>,
    /// Unbroken use of each key by the calls of one node.
    pub(super) uses: HashMap<(usize, FullKey), Use>,
    /// The tokens of keys that an operator deleted. The checks skip them, because no lock service
    /// can prevent a second holder after a deletion.
    pub(super) stolen: HashSet<Token>,
    /// Maps the token of a kept share at the server to the token of its last holder.
    pub(super) kept_shares: HashMap<Token, Token>,
    /// Kept results by key and function, each with the time until which it is kept.
    pub(super) results: HashMap<(FullKey, &'static str), (Arc<Kept>, Instant)>,
    pub(super) last_result: u64,
    /// True if this run has calls with `replay`.
    pub(super) replays: bool,
    /// True if all calls of this run request the same key, most of them from the same core.
    pub(super) is_hot: bool,
    pub(super) outcome: Outcome,
}

impl World {
    pub(super) fn new(seed: u64, bug: Option<Bug>) -> Self {
        let limits = Limits {
            make_way_after: MAKE_WAY_AFTER,
            ..Limits::of_tests(IO_TIMEOUT, 100)
        };
        let node = |number: usize| Node {
            core: Core::new(limits, seed ^ number as u64).with_bug(bug),
            generation: 1,
            connected: true,
            open: BTreeMap::new(),
            acquires: HashMap::new(),
            to_server: START,
            to_core: START,
            paused_until: START,
            callers: BTreeMap::new(),
            next_ticket: 1,
            next_tick: None,
        };
        let mut world = Self {
            now: START,
            random: Random(seed),
            happenings: BinaryHeap::new(),
            bodies: HashMap::new(),
            last: 0,
            nodes: (0..CORES).map(node).collect(),
            entries: KeyMap::default(),
            queues: KeyMap::default(),
            granted: KeyMap::default(),
            last_fence: 0,
            fences: KeyMap::default(),
            uses: HashMap::new(),
            stolen: HashSet::new(),
            kept_shares: HashMap::new(),
            results: HashMap::new(),
            last_result: 0,
            replays: seed.is_multiple_of(5),
            is_hot: seed.is_multiple_of(7),
            outcome: Outcome::default(),
        };
        world.plan();
        world
    }

    pub(super) fn plan(&mut self) {
        let mut at = START;
        for _ in 0..CALLS {
            // One call in three comes up to 200 ms after the previous one, the others up to 10 ms.
            let longest = if self.random.one_in(3) { 200 } else { 10 };
            at = at + self.random.millis(0, longest);
            let node = self.any_node();
            self.at(at, Happening::Call(node));
        }
        for _ in 0..self.random.below(6) {
            let at = START + self.random.millis(0, 6_000);
            let node = self.any_node();
            self.at(at, Happening::Cut(node));
        }
        for _ in 0..self.random.below(3) {
            let at = START + self.random.millis(0, 6_000);
            let key = self.random.below(KEYS);
            self.at(at, Happening::Steal(key));
        }
        for _ in 0..self.random.below(4) {
            let at = START + self.random.millis(0, 6_000);
            let until = at + self.random.millis(1, 3_000);
            let node = self.any_node();
            self.at(at, Happening::Pause(node, until));
        }
    }

    pub(super) fn any_node(&mut self) -> usize {
        if self.is_hot && !self.random.one_in(8) {
            return 0;
        }
        usize::try_from(self.random.below(CORES as u64)).unwrap()
    }

    pub(super) fn at(&mut self, at: Instant, happening: Happening) {
        self.last += 1;
        self.bodies.insert(self.last, happening);
        self.happenings.push(Reverse((at, self.last)));
    }

    pub(super) fn run(mut self) -> Outcome {
        let mut steps = 0;
        while let Some(Reverse((at, number))) = self.happenings.pop() {
            steps += 1;
            if steps > 200_000 {
                self.violation("the simulation does not come to an end".to_owned());
                break;
            }
            self.now = at.max(self.now);
            let happening = self.bodies.remove(&number).unwrap();
            self.happen(happening);
            self.check_orphans();
        }
        self.check_end();
        self.outcome
    }

    pub(super) fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrive(node, generation, request) => {
                return self.arrive(node, generation, &request);
            }
            Happening::Steal(key) => return self.steal(&format!("key{key}").into()),
            Happening::Pause(node, until) => {
                self.outcome.pauses += 1;
                let paused = &mut self.nodes[node].paused_until;
                *paused = until.max(*paused);
                return;
            }
            _ => {}
        }
        let node = match &happening {
            Happening::Call(node)
            | Happening::End(node, _)
            | Happening::Downgrade(node, _)
            | Happening::Answer(node, ..)
            | Happening::Delivered(node, ..)
            | Happening::Cut(node)
            | Happening::Connected(node)
            | Happening::Tick(node)
            | Happening::Pause(node, _)
            | Happening::Arrive(node, ..) => *node,
            Happening::Steal(_) => return,
        };
        // A suspended process handles all events after it resumes.
        let resumes = self.nodes[node].paused_until;
        if self.now < resumes {
            return self.at(resumes, happening);
        }
        match happening {
            Happening::Call(node) => self.call(node),
            Happening::End(node, id) => self.end(node, id),
            Happening::Downgrade(node, id) => self.downgrade(node, id),
            Happening::Answer(node, generation, op, result) => {
                self.answer(node, generation, op, result);
            }
            Happening::Delivered(node, generation, message) => {
                self.deliver(node, generation, &message);
            }
            Happening::Cut(node) => self.cut(node),
            Happening::Connected(node) => {
                self.nodes[node].connected = true;
                self.nodes[node].core.connected(self.now);
            }
            Happening::Tick(node) => self.nodes[node].next_tick = None,
            Happening::Arrive(..) | Happening::Pause(..) | Happening::Steal(_) => {}
        }
        self.drive(node);
    }

    /// Deletes the key, as an operator might.
    fn steal(&mut self, key: &FullKey) {
        let Some(entry) = self.entries.remove(key) else {
            return;
        };
        self.stolen.extend(entry.token());
        match entry.holder {
            Holder::Shared(shares) => {
                let kept = shares.keys().filter_map(|name| self.kept_shares.get(name));
                self.stolen.extend(kept);
                self.stolen.extend(shares.into_keys());
            }
            Holder::Kept(token) => {
                self.stolen.insert(token);
            }
            Holder::Token { .. } | Holder::Handed => {}
        }
    }

    fn deliver(&mut self, node: usize, generation: u64, message: &Message) {
        let state = &mut self.nodes[node];
        if state.generation != generation {
            return;
        }
        match message {
            Message::Called(key) => state.core.called(key, self.now),
            Message::Wanted(key) => state.core.key_wanted(key, self.now),
        }
    }

    /// Does the work of the driver after each event.
    pub(super) fn drive(&mut self, node: usize) {
        let now = self.now;
        let core = &mut self.nodes[node].core;
        core.tick(now);
        let requests = core.take_requests(now);
        let signals = core.take_signals();
        for request in requests {
            self.send(node, request);
        }
        for signal in signals {
            self.signalled(node, signal);
        }
        if let Some(id) = self.nodes[node].core.unwatched() {
            self.violation(format!("the lease of {id:?} has no timer"));
        }
        let due = self.nodes[node].core.next_due();
        if let Some(due) = due
            && self.nodes[node].next_tick.is_none_or(|at| due < at)
        {
            // A timer goes off up to 3 ms late, but never early.
            let at = due.max(now) + self.random.millis(0, 3);
            self.nodes[node].next_tick = Some(due);
            self.at(at, Happening::Tick(node));
        }
    }

    pub(super) fn check_end(&mut self) {
        for number in 0..CORES {
            if !self.nodes[number].core.is_idle() {
                self.violation(format!("core {number} has forgotten a ticket"));
            }
            let unanswered = self.nodes[number]
                .callers
                .values()
                .any(|caller| caller.state == State::Waiting);
            if unanswered {
                self.violation(format!("a caller of core {number} was never answered"));
            }
        }
    }

    /// Checks that each core remembers a key that it may have left on the server, until the key's
    /// ttl is over. The key may have been set by a request that arrived late.
    pub(super) fn check_orphans(&mut self) {
        let now = self.now;
        let mut found = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            for caller in node.callers.values() {
                let State::Over(at) = caller.state else {
                    continue;
                };
                let entry = self.entries.get(&caller.key);
                let set = entry.is_some_and(|entry| entry.is_of(caller.token, now));
                if set && now < at + caller.ttl && !node.core.knows_token(caller.token) {
                    found.push(format!(
                        "core {number} forgot that it left {} on the server",
                        caller.key
                    ));
                }
            }
        }
        for orphan in found {
            self.violation(orphan);
        }
    }

    pub(super) fn violation(&mut self, what: impl std::fmt::Display) {
        let at = self.now.since(START);
        self.outcome.violations.push(format!("at {at:?}: {what}"));
    }
}
