//! A quorum for tests of the core. The tests determine the answers of its nodes.

use std::time::Duration;

use super::core::{QuorumCore, Settings};
use super::identity::Identity;
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::error::{LockError, StoreError};
use crate::fence::Fence;
use crate::store::{
    Failure, Give, GiveKind, Op, OpId, Renewal, Reply, Request, Retry, StoreEvent, Take, TakeKind,
};

pub(super) const TTL: Duration = Duration::from_secs(10);
pub(super) const TIMEOUT: Duration = Duration::from_millis(50);

pub(super) struct TestQuorum {
    pub(super) core: QuorumCore,
    nodes: usize,
    pub(super) now: Instant,
}

/// A request sent to a node.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SentOp {
    Acquire(OpId, Token),
    Renew(OpId, Token),
    /// A removal, with the number of earlier acquires that the node may still carry out.
    Remove(OpId, Token, usize),
}

impl TestQuorum {
    /// Returns a quorum of nodes old enough to vote.
    pub(super) fn new(nodes: usize) -> Self {
        let mut quorum = Self::young(nodes);
        for node in 0..nodes {
            quorum.meet(node, &format!("run {node}"), 3_600);
            quorum.core.reached(node);
        }
        quorum
    }

    /// Returns a quorum of nodes that were never connected, so they do not vote.
    pub(super) fn young(nodes: usize) -> Self {
        let settings = Settings {
            node_timeout: TIMEOUT,
            max_ttl: Duration::from_secs(1),
        };
        let names = (0..nodes).map(|node| format!("node {node}")).collect();
        Self {
            core: QuorumCore::new(names, settings),
            nodes,
            now: Instant::from_nanos(1) + Duration::from_secs(100_000),
        }
    }

    pub(super) fn meet(&mut self, node: usize, run_id: &str, uptime: u64) {
        let identity = Identity {
            run_id: run_id.to_owned(),
            uptime: Duration::from_secs(uptime),
            role: "master".to_owned(),
            ..Identity::default()
        };
        self.core.meet(node, &identity, self.now);
    }

    pub(super) fn submit(&mut self, id: u64, op: Op) {
        let request = Request {
            id: OpId(id),
            op,
            patience: Duration::from_secs(1),
        };
        self.core.submit(request, self.now);
    }

    pub(super) fn acquire(&mut self, id: u64) {
        let take = Take {
            queue: true,
            kind: TakeKind::Lock {
                reserved_fences: 16,
            },
            ..Take::lock(key(), token(), TTL, "f")
        };
        self.submit(id, Op::Take(take));
    }

    pub(super) fn renew(&mut self, id: u64) {
        let renewal = Renewal {
            key: key(),
            token: token(),
            ttl: TTL,
        };
        let renewals = vec![renewal];
        self.submit(
            id,
            Op::Keep {
                renewals,
                shares: false,
            },
        );
    }

    pub(super) fn release(&mut self, id: u64, after: Vec<OpId>) {
        let give = Give {
            after,
            ..Give::now(key(), token(), GiveKind::Lock)
        };
        self.submit(id, Op::Give(give));
    }

    pub(super) fn sent(&mut self, node: usize) -> Vec<SentOp> {
        let outbox = self.core.take_outbox(node).into_iter();
        let sent = outbox.map(|Request { id, op, .. }| match op {
            Op::Take(take) => SentOp::Acquire(id, take.token),
            Op::Keep { renewals, .. } => SentOp::Renew(id, renewals[0].token),
            Op::Give(give) => SentOp::Remove(id, give.token, give.after.len()),
            other => panic!("no node is asked {other:?}"),
        });
        sent.collect()
    }

    /// Returns the last request sent to a node, which must be a removal. The parts are those of
    /// [`SentOp::Remove`].
    pub(super) fn removal(&mut self, node: usize) -> (OpId, Token, usize) {
        match self.sent(node).pop() {
            Some(SentOp::Remove(id, token, after)) => (id, token, after),
            other => panic!("no removal was sent to node {node}, but {other:?}"),
        }
    }

    pub(super) fn answer(&mut self, node: usize, id: OpId, reply: Reply) {
        self.core.answer(node, id, &Ok(reply), self.now);
    }

    pub(super) fn yes(&mut self, node: usize, id: u64) {
        let reply = Reply::Acquired {
            fence: Some(Fence::new(7)),
            reserved_fences: 0,
            wanted: Some(false),
        };
        self.answer(node, OpId(id), reply);
    }

    pub(super) fn no(&mut self, node: usize, id: u64) {
        self.answer(
            node,
            OpId(id),
            Reply::Held {
                left: None,
                queued: false,
                owner: None,
            },
        );
    }

    pub(super) fn fail(&mut self, node: usize, id: u64, executed: bool) {
        let failure = Failure {
            error: LockError::Unavailable {
                source: StoreError::new("io", "gone"),
            },
            retry: Retry::Later,
            executed,
        };
        self.core.answer(node, OpId(id), &Err(failure), self.now);
    }

    pub(super) fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        self.core.tick(self.now);
    }

    pub(super) fn outcome(&mut self) -> Option<(u64, Result<Reply, Failure>)> {
        match self.core.next_event()? {
            StoreEvent::Reply(OpId(id), result) => Some((id, result)),
            _ => None,
        }
    }

    pub(super) fn expect_yes(&mut self, id: u64) {
        match self.outcome() {
            Some((answered, Ok(Reply::Acquired { fence: None, .. }))) => assert_eq!(answered, id),
            other => panic!("{id} did not take the lock: {other:?}"),
        }
    }

    pub(super) fn expect_held(&mut self, id: u64) {
        match self.outcome() {
            Some((answered, Ok(Reply::Held { .. }))) => assert_eq!(answered, id),
            other => panic!("{id} was not refused: {other:?}"),
        }
    }

    pub(super) fn expect_failure(&mut self, id: u64) -> String {
        match self.outcome() {
            Some((answered, Err(failure))) => {
                assert_eq!(answered, id);
                failure.text()
            }
            other => panic!("{id} did not fail: {other:?}"),
        }
    }

    /// Takes the lock on all nodes.
    pub(super) fn hold(&mut self, id: u64) {
        self.acquire(id);
        for node in 0..self.nodes {
            self.yes(node, id);
            self.sent(node);
        }
        self.expect_yes(id);
    }
}

pub(super) fn key() -> FullKey {
    "k".into()
}

pub(super) fn token() -> Token {
    Token::fixed(1)
}
