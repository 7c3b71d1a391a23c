//! The pure core: requests, answers of nodes and the time go in, requests to nodes and answers come out.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::mem;
use std::time::Duration;

use super::eligibility::{Eligibility, Met};
use super::identity::Identity;
use super::question::{NodeSet, PendingQuestion, Question, no_quorum};
use super::quorum::{Tally, majority};
use super::removals::{PendingRemoval, PendingRemovals};
use super::tokens::TokenMap;
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::error::{LockError, StoreError};
use crate::store::{Failure, Op, OpId, Renewal, Reply, Request, Retry, StoreEvent};

/// What can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settings {
    /// How long a node may take to answer, and at most a twentieth of the ttl.
    pub(super) node_timeout: Duration,
    /// The longest ttl that anybody uses, as far as is known from the start.
    pub(super) max_ttl: Duration,
}

/// One node as the panel sees it.
#[derive(Debug, Default)]
struct Seat {
    eligibility: Eligibility,
    /// Acquires that the node may still carry out.
    unsettled: HashSet<OpId>,
    debts: PendingRemovals,
    /// Whether it answered last time.
    up: bool,
    outbox: Vec<Request>,
}

/// A lock that the engine wants.
struct Wanted {
    key: FullKey,
    token: Token,
    ttl: Duration,
    function: &'static str,
    reserved_fences: u32,
}

impl Wanted {
    /// What a node is asked.
    fn op(&self, wire: Token) -> Op {
        Op::Acquire {
            key: self.key.clone(),
            token: wire,
            ttl: self.ttl,
            function: self.function,
            queue: false,
            reserved_fences: 0,
        }
    }
}

/// All nodes, and what they are asked.
pub(super) struct QuorumCore {
    names: Vec<String>,
    seats: Vec<Seat>,
    settings: Settings,
    claims: TokenMap,
    ballots: HashMap<OpId, PendingQuestion>,
    deadlines: BTreeSet<(Instant, OpId)>,
    events: VecDeque<StoreEvent>,
    /// Removals that nobody asked for have ids of our own, counted down from the end, where the engine's never come.
    next_own: u64,
}

impl QuorumCore {
    pub(super) fn new(names: Vec<String>, settings: Settings) -> Self {
        Self {
            seats: names.iter().map(|_| Seat::default()).collect(),
            names,
            settings,
            claims: TokenMap::new(),
            ballots: HashMap::new(),
            deadlines: BTreeSet::new(),
            events: VecDeque::new(),
            next_own: u64::MAX,
        }
    }

    /// A connection to a node was made.
    pub(super) fn meet(&mut self, node: usize, identity: &Identity, now: Instant) -> Met {
        let twin = self.twin(node, &identity.run_id);
        let seat = &mut self.seats[node];
        seat.up = true;
        let met = seat.eligibility.meet(identity, now);
        if let Some(twin) = twin {
            let reason = format!("it is the same server as {}", self.names[twin]);
            self.seats[node].eligibility.disqualify(reason);
        }
        met
    }

    fn twin(&self, node: usize, run_id: &str) -> Option<usize> {
        let others = self.seats.iter().enumerate();
        others
            .filter(|(other, seat)| *other != node && seat.eligibility.unfit().is_none())
            .find(|(_, seat)| seat.eligibility.run_id() == Some(run_id))
            .map(|(other, _)| other)
    }

    /// Why a node may not vote however old it is.
    pub(super) fn unfit(&self, node: usize) -> Option<&str> {
        self.seats[node].eligibility.unfit()
    }

    /// How long a node stays without a vote because it was started lately.
    pub(super) fn quarantined(&self, node: usize, now: Instant) -> Option<Duration> {
        let from = self.seats[node]
            .eligibility
            .votes_from(self.settings.max_ttl)?;
        (now < from).then(|| from.since(now))
    }

    /// A request of the engine.
    pub(super) fn submit(&mut self, request: Request, now: Instant) {
        let Request { id, op, patience } = request;
        match op {
            Op::Acquire {
                key,
                token,
                ttl,
                function,
                reserved_fences,
                // There is no queue across independent nodes: who waits asks again after a random pause.
                queue: _,
            } => {
                let wanted = Wanted {
                    key,
                    token,
                    ttl,
                    function,
                    reserved_fences,
                };
                self.acquire(id, &wanted, patience, now);
            }
            // A lock that is to become a share stays whole: nobody else can have a share of it.
            Op::Renew(renewals) | Op::Stay(renewals) => self.renew(id, renewals, patience, now),
            Op::Release {
                key,
                token,
                keep,
                after,
                ..
            } => self.release(id, &key, token, keep, !after.is_empty(), now),
            Op::Part { key, token, after } => {
                self.release(id, &key, token, None, !after.is_empty(), now);
            }
            Op::Leave { .. } => self.tell(id, Ok(Reply::Left)),
            Op::Join { .. } => self.tell(id, Err(no_shares())),
            // No step is one on several nodes.
            Op::AcquireAll { .. } => self.tell(id, Ok(Reply::Apart)),
        }
    }

    fn acquire(&mut self, id: OpId, wanted: &Wanted, patience: Duration, now: Instant) {
        let Wanted {
            key, token, ttl, ..
        } = wanted;
        let longest_ttl = self.observe(*ttl);
        let (wire, undecided) = self.claims.ask(key, *token, id, *ttl, now);
        if let Some(earlier) = undecided {
            self.supersede(earlier);
        }
        let question = Question::Acquire {
            key: key.clone(),
            token: *token,
            ttl: *ttl,
            reserved_fences: wanted.reserved_fences,
            tally: Tally::new(self.seats.len()),
        };
        let mut pending = self.pending(question, *ttl, now);
        for (node, seat) in self.seats.iter_mut().enumerate() {
            if let Some(why) = seat.eligibility.unfit() {
                pending.skip(node, unfit(why));
                continue;
            }
            if seat.eligibility.votes(longest_ttl, now) {
                pending.voters.insert(node);
            }
            pending.waiting.insert(node);
            seat.unsettled.insert(id);
            let op = wanted.op(wire);
            seat.outbox.push(Request { id, op, patience });
        }
        self.open(id, pending, now);
    }

    fn renew(&mut self, id: OpId, mut renewals: Vec<Renewal>, patience: Duration, now: Instant) {
        let mut shortest = Duration::MAX;
        for renewal in &mut renewals {
            self.observe(renewal.ttl);
            shortest = shortest.min(renewal.ttl);
            renewal.token = self
                .claims
                .renew(&renewal.key, renewal.token, renewal.ttl, now);
        }
        let tallies = vec![Tally::new(self.seats.len()); renewals.len()];
        let mut pending = self.pending(Question::Renew(tallies), shortest, now);
        for (node, seat) in self.seats.iter_mut().enumerate() {
            if let Some(why) = seat.eligibility.unfit() {
                pending.skip(node, unfit(why));
                continue;
            }
            // Young or not: that a node has the key now is nothing that it can have forgotten.
            pending.waiting.insert(node);
            let op = Op::Renew(renewals.clone());
            seat.outbox.push(Request { id, op, patience });
        }
        self.open(id, pending, now);
    }

    fn release(
        &mut self,
        id: OpId,
        key: &FullKey,
        token: Token,
        keep: Option<Duration>,
        uncertain: bool,
        now: Instant,
    ) {
        let question = Question::Release {
            uncertain,
            answered: 0,
            found: 0,
            ordered: 0,
            without: 0,
        };
        let ttl = self.remove_everywhere(key, token, keep, Some(id), now);
        let mut pending = self.pending(question, ttl, now);
        pending.waiting = all(self.seats.len());
        self.open(id, pending, now);
    }

    /// Removes what a call may have on any node, and goes on until it is certain; says for how long that may be needed.
    fn remove_everywhere(
        &mut self,
        key: &FullKey,
        token: Token,
        keep: Option<Duration>,
        release: Option<OpId>,
        now: Instant,
    ) -> Duration {
        let claim = self.claims.remove(key, token, self.settings.max_ttl, now);
        for node in 0..self.seats.len() {
            let own = self.own_id();
            let mut debt = PendingRemoval::new(
                key.clone(),
                claim.wire,
                claim.asked.clone(),
                now + claim.ttl,
            );
            debt.keep = keep;
            debt.release = release;
            let id = self.seats[node].debts.owe(own, debt);
            self.try_removal(node, id, now);
        }
        claim.ttl
    }

    fn try_removal(&mut self, node: usize, id: OpId, now: Instant) {
        let patience = self.settings.node_timeout;
        let seat = &mut self.seats[node];
        let Some(debt) = seat.debts.tried(id, now) else {
            return;
        };
        let unsettled = debt.asked.iter().filter(|op| seat.unsettled.contains(op));
        let op = Op::Release {
            key: debt.key.clone(),
            token: debt.wire,
            keep: debt.keep,
            makes_way: false,
            after: unsettled.copied().collect(),
        };
        seat.outbox.push(Request { id, op, patience });
    }

    /// The same call asks anew before the nodes have decided: only the new question counts.
    fn supersede(&mut self, earlier: OpId) {
        if let Some(pending) = self.ballots.remove(&earlier) {
            self.deadlines.remove(&(pending.deadline, earlier));
            let failure = no_quorum(0, self.seats.len(), "; it was asked again", Retry::Later);
            self.tell(earlier, Err(failure));
        }
    }

    /// A node's answer.
    pub(super) fn answer(
        &mut self,
        node: usize,
        id: OpId,
        result: &Result<Reply, Failure>,
        now: Instant,
    ) {
        let seat = &mut self.seats[node];
        seat.up = match result {
            Ok(_) => true,
            Err(failure) => seat.up && !matches!(failure.code(), "io" | "timeout"),
        };
        if !result.as_ref().is_err_and(|failure| failure.executed) {
            seat.unsettled.remove(&id);
        }
        let first = seat.debts.is_first_try(id);
        match seat.debts.take_release(id) {
            Some(release) => self.vote(node, release, result, first, now),
            None => self.vote(node, id, result, first, now),
        }
        if let Ok(Reply::Released { ordered: true, .. }) = result {
            self.settle(node, id);
        }
    }

    fn vote(
        &mut self,
        node: usize,
        id: OpId,
        result: &Result<Reply, Failure>,
        first: bool,
        now: Instant,
    ) {
        if let Some(pending) = self.ballots.get_mut(&id) {
            pending.hear(node, result, first);
            self.decide(id, now);
        }
    }

    /// A node can be reached again: what it owes is collected at once.
    pub(super) fn connected(&mut self, node: usize, now: Instant) {
        let before = self.up();
        self.seats[node].up = true;
        for id in self.seats[node].debts.all() {
            self.try_removal(node, id, now);
        }
        let quorum = majority(self.seats.len());
        if before < quorum && self.up() >= quorum {
            self.events.push_back(StoreEvent::Connected);
        }
    }

    fn up(&self) -> usize {
        self.seats.iter().filter(|seat| seat.up).count()
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, now: Instant) {
        while let Some(&(deadline, id)) = self.deadlines.first() {
            if now < deadline {
                break;
            }
            self.deadlines.pop_first();
            if let Some(pending) = self.ballots.get_mut(&id) {
                pending.expire();
                self.decide(id, now);
            }
        }
        for node in 0..self.seats.len() {
            for id in self.seats[node].debts.due(now) {
                if self.seats[node].debts.is_over(id, now) {
                    self.settle(node, id);
                } else {
                    self.try_removal(node, id, now);
                }
            }
        }
    }

    /// When to call [`tick`](Self::tick) next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let debts = self.seats.iter().filter_map(|seat| seat.debts.next_due());
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        debts.chain(deadline).min()
    }

    /// What to tell the engine.
    pub(super) fn next_event(&mut self) -> Option<StoreEvent> {
        self.events.pop_front()
    }

    /// What to send to a node, in this order.
    pub(super) fn take_outbox(&mut self, node: usize) -> Vec<Request> {
        mem::take(&mut self.seats[node].outbox)
    }

    fn settle(&mut self, node: usize, id: OpId) {
        let seat = &mut self.seats[node];
        if let Some(debt) = seat.debts.settle(id) {
            for op in debt.asked {
                seat.unsettled.remove(&op);
            }
        }
    }

    fn pending(&self, question: Question, ttl: Duration, now: Instant) -> PendingQuestion {
        let timeout = self.settings.node_timeout.min(ttl / 20);
        PendingQuestion::new(question, self.seats.len(), now, now + timeout)
    }

    fn open(&mut self, id: OpId, pending: PendingQuestion, now: Instant) {
        self.deadlines.insert((pending.deadline, id));
        self.ballots.insert(id, pending);
        // Without a node that may be asked it is decided already.
        self.decide(id, now);
    }

    /// Answers the engine if the nodes have decided.
    fn decide(&mut self, id: OpId, now: Instant) {
        let Some(pending) = self.ballots.get(&id) else {
            return;
        };
        let Some(mut decision) = pending.decision(&self.names) else {
            return;
        };
        self.deadlines.remove(&(pending.deadline, id));
        let sent = pending.sent;
        if let Some(PendingQuestion {
            question: Question::Acquire {
                key, token, ttl, ..
            },
            ..
        }) = self.ballots.remove(&id)
        {
            self.claims.decided(&key, token, id);
            if matches!(decision, Ok(Reply::Acquired { .. })) && now.since(sent) > ttl / 2 {
                let why = "; their answers took more than half of the ttl";
                decision = Err(no_quorum(0, self.seats.len(), why, Retry::Later));
            }
            if !matches!(decision, Ok(Reply::Acquired { .. })) {
                self.remove_everywhere(&key, token, None, None, now);
            }
        }
        self.tell(id, decision);
    }

    fn tell(&mut self, id: OpId, result: Result<Reply, Failure>) {
        self.events.push_back(StoreEvent::Reply(id, result));
    }

    /// The longest ttl so far.
    fn observe(&mut self, ttl: Duration) -> Duration {
        self.settings.max_ttl = self.settings.max_ttl.max(ttl);
        self.settings.max_ttl
    }

    fn own_id(&mut self) -> OpId {
        self.next_own -= 1;
        OpId(self.next_own)
    }
}

fn all(nodes: usize) -> NodeSet {
    let mut set = NodeSet::default();
    (0..nodes).for_each(|node| set.insert(node));
    set
}

/// Shares are counted on one server; there is no counting across independent ones.
fn no_shares() -> Failure {
    Failure {
        error: LockError::config(
            "`shared` and `permits` are not possible with `redlock://`, whose nodes have no count in common; use them on a pool with \
             `redis://`",
        ),
        retry: Retry::Never,
        executed: false,
    }
}

/// A node that may not vote however long one waits.
fn unfit(why: &str) -> Failure {
    Failure {
        error: LockError::Unavailable {
            source: StoreError::new("unfit", why),
        },
        retry: Retry::Later,
        executed: false,
    }
}
