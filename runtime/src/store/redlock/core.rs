//! The decisions of the quorum store, without I/O. The inputs are the engine's requests, the nodes'
//! answers and the time. The outputs are requests to nodes and answers to the engine.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use super::eligibility::Met;
use super::failures::{no_adoption, no_quorum, no_results, no_shares, unfit};
use super::identity::Identity;
use super::node::NodeState;
use super::question::{NodeSet, PendingQuestion, Question};
use super::quorum::{Tally, majority};
use super::removals::PendingRemoval;
use super::tokens::TokenMap;
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::store::{
    Failure, Give, GiveKind, Op, OpId, Renewal, Reply, Request, Retry, StoreEvent, Take, TakeKind,
};

/// Settings in the URL of a quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settings {
    /// Time limit for a node's answer. If a twentieth of the lock's ttl is shorter, the limit is
    /// that twentieth.
    pub(super) node_timeout: Duration,
    /// Longest ttl that any client uses. It comes from the URL, and grows if a request has a longer
    /// ttl.
    pub(super) max_ttl: Duration,
}

/// The state of all nodes, and the pending questions to them.
pub(super) struct QuorumCore {
    names: Vec<String>,
    nodes: Vec<NodeState>,
    settings: Settings,
    tokens: TokenMap,
    questions: HashMap<OpId, PendingQuestion>,
    deadlines: BTreeSet<(Instant, OpId)>,
    events: VecDeque<StoreEvent>,
    /// The last id that the core gave to a removal. These ids count down from the highest number,
    /// so they never equal an id of the engine.
    last_own_id: u64,
}

impl QuorumCore {
    pub(super) fn new(names: Vec<String>, settings: Settings) -> Self {
        Self {
            nodes: names.iter().map(|_| NodeState::default()).collect(),
            names,
            settings,
            tokens: TokenMap::new(),
            questions: HashMap::new(),
            deadlines: BTreeSet::new(),
            events: VecDeque::new(),
            last_own_id: u64::MAX,
        }
    }

    /// Records a new connection to a node, and the server process at its other end.
    pub(super) fn meet(&mut self, node: usize, identity: &Identity, now: Instant) -> Met {
        let twin = self.twin(node, &identity.run_id);
        let met = self.nodes[node].eligibility.meet(identity, now);
        if let Some(twin) = twin {
            let reason = format!("it is the same server as {}", self.names[twin]);
            self.nodes[node].eligibility.disqualify(reason);
        }
        met
    }

    /// Returns another node with the same server process `run_id`, unless that node is already
    /// excluded from voting. Only one of the two nodes may vote.
    fn twin(&self, node: usize, run_id: &str) -> Option<usize> {
        let others = self.nodes.iter().enumerate();
        others
            .filter(|(other, state)| *other != node && state.eligibility.unfit().is_none())
            .find(|(_, state)| state.eligibility.run_id() == Some(run_id))
            .map(|(other, _)| other)
    }

    /// Returns the reason why a node may not vote even after a quarantine, if there is one.
    pub(super) fn unfit(&self, node: usize) -> Option<&str> {
        self.nodes[node].eligibility.unfit()
    }

    /// Returns the remaining quarantine of a node. `None` if the node is not in quarantine.
    pub(super) fn quarantined(&self, node: usize, now: Instant) -> Option<Duration> {
        let from = self.nodes[node]
            .eligibility
            .votes_from(self.settings.max_ttl)?;
        (now < from).then(|| from.since(now))
    }

    /// Notifies the engine that a node has taken a lock away by force.
    ///
    /// One node suffices. If the holder changes during a forced release, the release can reach the
    /// next holder on fewer nodes than a quorum. The freed nodes, and those that this holder does
    /// not have, can be a quorum for another client.
    pub(super) fn revoked(&mut self, key: &FullKey, lease: u64) {
        if let Some(token) = self.tokens.revoked(key, lease) {
            self.events.push_back(StoreEvent::Revoked {
                key: key.clone(),
                lease: token.half(),
            });
        }
    }

    /// Handles a request of the engine.
    pub(super) fn submit(&mut self, request: Request, now: Instant) {
        let Request { id, op, patience } = request;
        match op {
            Op::Take(take) => match take.kind {
                TakeKind::Lock { reserved_fences } => {
                    self.acquire(id, &take, reserved_fences, patience, now);
                }
                TakeKind::Share { .. } => self.report(id, Err(no_shares())),
                TakeKind::Recall => self.report(id, Err(no_results())),
            },
            // With `shares`, an `Op::Keep` also asks to downgrade an exclusive lock to a share. The
            // lock stays exclusive, because a quorum does not support shares.
            Op::Keep { renewals, .. } => self.renew(id, renewals, patience, now),
            Op::Give(Give {
                kind: GiveKind::Record(_),
                ..
            })
            | Op::Forget { .. } => self.report(id, Err(no_results())),
            Op::Give(give) => self.release(id, &give, now),
            Op::Leave { .. } => self.report(id, Ok(Reply::Left)),
            Op::Adopt { .. } => self.report(id, Err(no_adoption())),
            // `Apart` makes the engine send a request for each key, because no single step can take
            // several keys on several nodes.
            Op::TakeAll { .. } => self.report(id, Ok(Reply::Apart)),
        }
    }

    fn acquire(
        &mut self,
        id: OpId,
        take: &Take,
        reserved_fences: u32,
        patience: Duration,
        now: Instant,
    ) {
        let Take {
            key, token, ttl, ..
        } = take;
        let longest_ttl = self.observe(*ttl);
        let (wire, undecided) = self.tokens.ask(key, *token, id, *ttl, now);
        if let Some(earlier) = undecided {
            self.supersede(earlier);
        }
        let question = Question::Acquire {
            key: key.clone(),
            token: *token,
            ttl: *ttl,
            reserved_fences,
            tally: Tally::new(self.nodes.len()),
            owners: Vec::new(),
        };
        let mut pending = self.pending(question, *ttl, now);
        for (node, state) in self.nodes.iter_mut().enumerate() {
            if let Some(why) = state.eligibility.unfit() {
                pending.skip(node, unfit(why));
                continue;
            }
            if state.eligibility.votes(longest_ttl, now) {
                pending.voters.insert(node);
            }
            pending.waiting.insert(node);
            // Independent nodes have no common queue. The engine retries after a random pause
            // instead.
            let op = Op::Take(Take {
                token: wire,
                queue: false,
                kind: TakeKind::Lock { reserved_fences: 0 },
                ..take.clone()
            });
            state.send_acquire(Request { id, op, patience });
        }
        self.open(id, pending, now);
    }

    fn renew(&mut self, id: OpId, mut renewals: Vec<Renewal>, patience: Duration, now: Instant) {
        let mut shortest = Duration::MAX;
        for renewal in &mut renewals {
            self.observe(renewal.ttl);
            shortest = shortest.min(renewal.ttl);
            renewal.token = self
                .tokens
                .renew(&renewal.key, renewal.token, renewal.ttl, now);
        }
        let tallies = vec![Tally::new(self.nodes.len()); renewals.len()];
        let mut pending = self.pending(Question::Renew(tallies), shortest, now);
        for (node, state) in self.nodes.iter_mut().enumerate() {
            if let Some(why) = state.eligibility.unfit() {
                pending.skip(node, unfit(why));
                continue;
            }
            // A node in quarantine votes on renewals, too: if it still has the key, it has not
            // forgotten the lock.
            pending.waiting.insert(node);
            let op = Op::Keep {
                renewals: renewals.clone(),
                shares: false,
            };
            state.send(Request { id, op, patience });
        }
        self.open(id, pending, now);
    }

    fn release(&mut self, id: OpId, give: &Give, now: Instant) {
        let question = Question::Release {
            uncertain: !give.after.is_empty(),
            answered: 0,
            found: 0,
            ordered: 0,
            without: 0,
        };
        let ttl = self.remove_everywhere(&give.key, give.token, give.keep, Some(id), now);
        let mut pending = self.pending(question, ttl, now);
        pending.waiting = all(self.nodes.len());
        self.open(id, pending, now);
    }

    /// Removes a call's key from all nodes, or lets it expire after `keep`. Repeats each removal
    /// until its outcome is certain or the key has expired. The next answer of each node is a vote
    /// on the engine's request `release`, if there is one. Returns the lock's ttl, which limits the
    /// time for the nodes' answers.
    fn remove_everywhere(
        &mut self,
        key: &FullKey,
        token: Token,
        keep: Option<Duration>,
        release: Option<OpId>,
        now: Instant,
    ) -> Duration {
        let patience = self.settings.node_timeout;
        let entry = self.tokens.remove(key, token, self.settings.max_ttl, now);
        for node in 0..self.nodes.len() {
            let own = self.own_id();
            let mut removal = PendingRemoval::new(
                key.clone(),
                entry.wire,
                entry.asked.clone(),
                now + entry.ttl,
            );
            removal.kept_until = keep.map(|keep| now + keep);
            removal.release = release;
            self.nodes[node].remove(own, removal, patience, now);
        }
        entry.ttl
    }

    /// Ends an undecided acquire that its call has repeated. After this, only the new acquire
    /// counts.
    fn supersede(&mut self, earlier: OpId) {
        if let Some(pending) = self.questions.remove(&earlier) {
            self.deadlines.remove(&(pending.deadline, earlier));
            let failure = no_quorum(
                0,
                self.nodes.len(),
                "; it was requested again",
                Retry::Later,
            );
            self.report(earlier, Err(failure));
        }
    }

    /// Handles a node's answer.
    pub(super) fn answer(
        &mut self,
        node: usize,
        id: OpId,
        result: &Result<Reply, Failure>,
        now: Instant,
    ) {
        let state = &mut self.nodes[node];
        state.receive(id, result);
        let first = state.is_first_try(id);
        let question = state.take_release(id).unwrap_or(id);
        self.vote(node, question, result, first, now);
        if let Ok(Reply::Released { ordered: true, .. }) = result {
            self.nodes[node].settle(id);
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
        if let Some(pending) = self.questions.get_mut(&id) {
            pending.receive(node, result, first);
            self.decide(id, now);
        }
    }

    /// Records that a node was reached when the pool connected.
    pub(super) fn reached(&mut self, node: usize) {
        self.nodes[node].up = true;
    }

    /// Records that a node can be reached again. Retries its pending removals at once.
    pub(super) fn connected(&mut self, node: usize, now: Instant) {
        let before = self.up();
        let patience = self.settings.node_timeout;
        let state = &mut self.nodes[node];
        state.up = true;
        state.retry_all(patience, now);
        let quorum = majority(self.nodes.len());
        if before < quorum && self.up() >= quorum {
            self.events.push_back(StoreEvent::Connected);
        }
    }

    fn up(&self) -> usize {
        self.nodes.iter().filter(|state| state.up).count()
    }

    /// Gives up nodes that did not answer in time, and repeats removals that are due.
    pub(super) fn tick(&mut self, now: Instant) {
        while let Some(&(deadline, id)) = self.deadlines.first() {
            if now < deadline {
                break;
            }
            self.deadlines.pop_first();
            if let Some(pending) = self.questions.get_mut(&id) {
                pending.expire();
                self.decide(id, now);
            }
        }
        let patience = self.settings.node_timeout;
        for state in &mut self.nodes {
            state.retry_due(patience, now);
        }
    }

    /// Returns the time at which [`tick`](Self::tick) must be called next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let removals = self.nodes.iter().filter_map(NodeState::next_due);
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        removals.chain(deadline).min()
    }

    pub(super) fn next_event(&mut self) -> Option<StoreEvent> {
        self.events.pop_front()
    }

    /// Returns the requests to send to a node, in the order of sending.
    pub(super) fn take_outbox(&mut self, node: usize) -> Vec<Request> {
        self.nodes[node].take_outbox()
    }

    fn pending(&self, question: Question, ttl: Duration, now: Instant) -> PendingQuestion {
        let timeout = self.settings.node_timeout.min(ttl / 20);
        PendingQuestion::new(question, self.nodes.len(), now, now + timeout)
    }

    fn open(&mut self, id: OpId, pending: PendingQuestion, now: Instant) {
        self.deadlines.insert((pending.deadline, id));
        self.questions.insert(id, pending);
        // If no node was asked, the question is already decided.
        self.decide(id, now);
    }

    /// Answers the engine, if the votes decide the question.
    fn decide(&mut self, id: OpId, now: Instant) {
        let Some(pending) = self.questions.get(&id) else {
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
        }) = self.questions.remove(&id)
        {
            self.tokens.decided(&key, token, id);
            if matches!(decision, Ok(Reply::Acquired { .. })) && now.since(sent) > ttl / 2 {
                let why = "; their answers took more than half of the ttl";
                decision = Err(no_quorum(0, self.nodes.len(), why, Retry::Later));
            }
            if !matches!(decision, Ok(Reply::Acquired { .. })) {
                self.remove_everywhere(&key, token, None, None, now);
            }
        }
        self.report(id, decision);
    }

    fn report(&mut self, id: OpId, result: Result<Reply, Failure>) {
        self.events.push_back(StoreEvent::Reply(id, result));
    }

    /// Records a ttl. Returns the longest ttl so far.
    fn observe(&mut self, ttl: Duration) -> Duration {
        self.settings.max_ttl = self.settings.max_ttl.max(ttl);
        self.settings.max_ttl
    }

    fn own_id(&mut self) -> OpId {
        self.last_own_id -= 1;
        OpId(self.last_own_id)
    }
}

fn all(nodes: usize) -> NodeSet {
    let mut set = NodeSet::default();
    (0..nodes).for_each(|node| set.insert(node));
    set
}
