//! Scenes for the panel, without I/O.

use std::time::Duration;

use super::core::{QuorumCore, Settings};
use super::identity::Identity;
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::error::{LockError, StoreError};
use crate::fence::Fence;
use crate::store::{Failure, Op, OpId, Renewal, Reply, Request, Retry, StoreEvent};

const TTL: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_millis(50);

/// Nodes that answer only what a scene says.
struct Scene {
    core: QuorumCore,
    nodes: usize,
    now: Instant,
}

/// What went to a node.
#[derive(Debug, PartialEq, Eq)]
enum InFlight {
    Acquire(OpId, Token),
    Renew(OpId, Token),
    /// Behind so many acquires whose outcome is not known.
    Remove(OpId, Token, usize),
}

impl Scene {
    /// Nodes that are old enough to vote.
    fn new(nodes: usize) -> Self {
        let mut scene = Self::young(nodes);
        for node in 0..nodes {
            scene.meet(node, &format!("run {node}"), 3_600);
        }
        scene
    }

    /// Nodes that nobody has met.
    fn young(nodes: usize) -> Self {
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

    fn meet(&mut self, node: usize, run_id: &str, uptime: u64) {
        let identity = Identity {
            run_id: run_id.to_owned(),
            uptime: Duration::from_secs(uptime),
            role: "master".to_owned(),
            ..Identity::default()
        };
        self.core.meet(node, &identity, self.now);
    }

    fn submit(&mut self, id: u64, op: Op) {
        let request = Request {
            id: OpId(id),
            op,
            patience: Duration::from_secs(1),
        };
        self.core.submit(request, self.now);
    }

    fn acquire(&mut self, id: u64) {
        let op = Op::Acquire {
            key: key(),
            token: token(),
            ttl: TTL,
            function: "f",
            queue: true,
            reserved_fences: 16,
        };
        self.submit(id, op);
    }

    fn renew(&mut self, id: u64) {
        let renewal = Renewal {
            key: key(),
            token: token(),
            ttl: TTL,
        };
        self.submit(id, Op::Renew(vec![renewal]));
    }

    fn release(&mut self, id: u64, after: Vec<OpId>) {
        let op = Op::Release {
            key: key(),
            token: token(),
            keep: None,
            makes_way: false,
            after,
        };
        self.submit(id, op);
    }

    fn sent(&mut self, node: usize) -> Vec<InFlight> {
        let outbox = self.core.take_outbox(node).into_iter();
        let sent = outbox.map(|Request { id, op, .. }| match op {
            Op::Acquire { token, .. } => InFlight::Acquire(id, token),
            Op::Renew(renewals) => InFlight::Renew(id, renewals[0].token),
            Op::Release { token, after, .. } => InFlight::Remove(id, token, after.len()),
            other => panic!("no node is asked {other:?}"),
        });
        sent.collect()
    }

    /// What was removed from a node lately.
    fn removal(&mut self, node: usize) -> (OpId, Token, usize) {
        match self.sent(node).pop() {
            Some(InFlight::Remove(id, token, after)) => (id, token, after),
            other => panic!("no removal was sent to node {node}, but {other:?}"),
        }
    }

    fn answer(&mut self, node: usize, id: OpId, reply: Reply) {
        self.core.answer(node, id, &Ok(reply), self.now);
    }

    fn yes(&mut self, node: usize, id: u64) {
        let reply = Reply::Acquired {
            fence: Some(Fence::new(7)),
            reserved_fences: 0,
            wanted: Some(false),
        };
        self.answer(node, OpId(id), reply);
    }

    fn no(&mut self, node: usize, id: u64) {
        self.answer(
            node,
            OpId(id),
            Reply::Held {
                left: None,
                queued: false,
            },
        );
    }

    fn fail(&mut self, node: usize, id: u64, executed: bool) {
        let failure = Failure {
            error: LockError::Unavailable {
                source: StoreError::new("io", "gone"),
            },
            retry: Retry::Later,
            executed,
        };
        self.core.answer(node, OpId(id), &Err(failure), self.now);
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        self.core.tick(self.now);
    }

    fn outcome(&mut self) -> Option<(u64, Result<Reply, Failure>)> {
        match self.core.next_event()? {
            StoreEvent::Reply(OpId(id), result) => Some((id, result)),
            _ => None,
        }
    }

    fn expect_yes(&mut self, id: u64) {
        match self.outcome() {
            Some((told, Ok(Reply::Acquired { fence: None, .. }))) => assert_eq!(told, id),
            other => panic!("{id} did not take the lock: {other:?}"),
        }
    }

    fn expect_held(&mut self, id: u64) {
        match self.outcome() {
            Some((told, Ok(Reply::Held { .. }))) => assert_eq!(told, id),
            other => panic!("{id} was not refused: {other:?}"),
        }
    }

    fn expect_failure(&mut self, id: u64) -> String {
        match self.outcome() {
            Some((told, Err(failure))) => {
                assert_eq!(told, id);
                failure.text()
            }
            other => panic!("{id} did not fail: {other:?}"),
        }
    }

    /// Takes the lock on all nodes.
    fn hold(&mut self, id: u64) {
        self.acquire(id);
        for node in 0..self.nodes {
            self.yes(node, id);
            self.sent(node);
        }
        self.expect_yes(id);
    }
}

fn key() -> FullKey {
    "k".into()
}

fn token() -> Token {
    Token::fixed(1)
}

#[test]
fn all_nodes_are_asked_at_once_and_two_of_three_are_enough() {
    let mut scene = Scene::new(3);
    scene.acquire(1);
    for node in 0..3 {
        assert_eq!(scene.sent(node), [InFlight::Acquire(OpId(1), token())]);
    }
    scene.yes(2, 1);
    assert!(scene.outcome().is_none(), "one of three decided");
    scene.yes(0, 1);
    scene.expect_yes(1);
    scene.yes(1, 1);
    assert!(scene.outcome().is_none(), "it was answered twice");
    assert!((0..3).all(|node| scene.sent(node).is_empty()));
}

#[test]
fn a_silent_majority_is_given_up_after_the_timeout_and_cleaned_everywhere() {
    let mut scene = Scene::new(3);
    scene.acquire(1);
    (0..3).for_each(|node| drop(scene.sent(node)));
    scene.yes(0, 1);
    scene.pass(TIMEOUT * 9 / 10);
    assert!(scene.outcome().is_none());
    scene.pass(TIMEOUT / 10);
    let text = scene.expect_failure(1);
    assert!(text.contains("node 1") && text.contains("node 2"), "{text}");
    let behind = [0, 1, 2].map(|node| scene.removal(node).2);
    assert_eq!(
        behind,
        [0, 1, 1],
        "the silent nodes may still carry the acquire out"
    );
}

#[test]
fn a_late_success_of_a_failed_acquire_is_removed() {
    let mut scene = Scene::new(3);
    scene.acquire(1);
    scene.no(0, 1);
    scene.no(1, 1);
    scene.expect_held(1);
    let (first, _, after) = scene.removal(2);
    assert_eq!(after, 1);
    scene.yes(2, 1);
    // It went on another connection, so it may have been carried out before the acquire.
    let unordered = Reply::Released {
        found: false,
        ordered: false,
    };
    scene.answer(2, first, unordered);
    scene.pass(Duration::from_millis(50));
    let (second, _, after) = scene.removal(2);
    assert_eq!(
        (second, after),
        (first, 0),
        "tried again, with nothing open"
    );
    let ordered = Reply::Released {
        found: true,
        ordered: true,
    };
    scene.answer(2, second, ordered);
    scene.pass(TTL);
    assert!(scene.sent(2).is_empty());
}

#[test]
fn the_next_try_of_a_call_carries_another_token() {
    let mut scene = Scene::new(3);
    scene.acquire(1);
    scene.no(0, 1);
    scene.no(1, 1);
    scene.expect_held(1);
    (0..3).for_each(|node| drop(scene.sent(node)));
    scene.acquire(2);
    let tokens: Vec<_> = (0..3)
        .map(|node| match scene.sent(node)[..] {
            [InFlight::Acquire(OpId(2), token)] => token,
            ref other => panic!("{other:?}"),
        })
        .collect();
    assert_ne!(tokens[0], token(), "its removal may still come");
    assert_eq!(tokens, [tokens[0]; 3]);
    (0..2).for_each(|node| scene.yes(node, 2));
    scene.expect_yes(2);
    scene.renew(3);
    assert_eq!(scene.sent(0), [InFlight::Renew(OpId(3), tokens[0])]);
    scene.release(4, Vec::new());
    assert_eq!(scene.removal(0).1, tokens[0]);
}

#[test]
fn asking_again_before_it_is_decided_removes_nothing() {
    let mut scene = Scene::new(3);
    scene.acquire(1);
    scene.acquire(2);
    scene.expect_failure(1);
    scene.yes(0, 1);
    scene.yes(1, 1);
    assert!(scene.outcome().is_none(), "the first try was counted");
    scene.yes(0, 2);
    scene.yes(1, 2);
    scene.expect_yes(2);
    scene.pass(TIMEOUT);
    for node in 0..3 {
        let sent = scene.sent(node);
        let acquires = sent
            .iter()
            .all(|sent| matches!(sent, InFlight::Acquire(_, wire) if *wire == token()));
        assert!(acquires, "{sent:?}");
    }
}

#[test]
fn a_lock_that_took_half_of_its_ttl_is_not_taken() {
    let mut scene = Scene::new(3);
    scene.acquire(1);
    // The process was stopped: nothing ran out, because nobody looked.
    scene.now = scene.now + TTL / 2 + Duration::from_millis(1);
    scene.yes(0, 1);
    scene.yes(1, 1);
    let text = scene.expect_failure(1);
    assert!(text.contains("half of the ttl"), "{text}");
    assert_eq!(scene.removal(2).2, 1);
}

#[test]
fn a_young_node_says_no_but_not_yes() {
    let mut scene = Scene::young(3);
    scene.meet(0, "old", 3_600);
    scene.meet(1, "young", 11);
    scene.meet(2, "young too", 11);
    scene.acquire(1);
    (0..3).for_each(|node| scene.yes(node, 1));
    let text = scene.expect_failure(1);
    assert!(text.contains("restarted lately"), "{text}");
    scene.acquire(2);
    scene.no(1, 2);
    scene.no(2, 2);
    scene.expect_held(2);
    scene.pass(Duration::from_secs(1));
    scene.acquire(3);
    scene.yes(0, 3);
    scene.yes(1, 3);
    scene.expect_yes(3);
}

#[test]
fn a_second_connection_is_no_second_chance() {
    let mut scene = Scene::new(3);
    for uptime in [0, 1, 3_600] {
        scene.meet(1, "anew", uptime);
        scene.meet(2, "anew too", uptime);
    }
    scene.acquire(1);
    (0..3).for_each(|node| scene.yes(node, 1));
    scene.expect_failure(1);
}

#[test]
fn one_server_under_two_names_has_one_vote() {
    let mut scene = Scene::new(3);
    scene.meet(2, "run 0", 3_600);
    assert!(
        scene
            .core
            .unfit(2)
            .is_some_and(|why| why.contains("node 0"))
    );
    scene.acquire(1);
    assert_eq!(scene.sent(2), [], "it would say what node 0 says");
    scene.yes(0, 1);
    scene.fail(1, 1, false);
    scene.expect_failure(1);
}

#[test]
fn a_renewal_needs_a_quorum_either_way() {
    let renewed = |votes: [Option<bool>; 3]| {
        let mut scene = Scene::new(3);
        scene.hold(1);
        scene.renew(2);
        for (node, vote) in votes.into_iter().enumerate() {
            match vote {
                Some(kept) => scene.answer(node, OpId(2), Reply::Renewed(vec![kept])),
                None => scene.fail(node, 2, true),
            }
        }
        let (_, result) = scene.outcome().expect("all have answered");
        result.map_err(|failure| failure.retry)
    };
    let (yes, no, silent) = (Some(true), Some(false), None);
    assert_eq!(renewed([yes, silent, yes]), Ok(Reply::Renewed(vec![true])));
    assert_eq!(renewed([no, yes, no]), Ok(Reply::Renewed(vec![false])));
    assert_eq!(renewed([no, silent, yes]), Err(Retry::Later));
    assert_eq!(renewed([no, silent, silent]), Err(Retry::Later));
}

#[test]
fn one_key_in_doubt_does_not_hold_up_the_others() {
    let mut scene = Scene::new(3);
    let renewal = |number: u128| Renewal {
        key: number.to_string().into(),
        token: Token::fixed(number),
        ttl: TTL,
    };
    scene.submit(1, Op::Renew((0..3).map(renewal).collect()));
    scene.answer(0, OpId(1), Reply::Renewed(vec![true, true, false]));
    scene.answer(1, OpId(1), Reply::Renewed(vec![true, false, false]));
    assert!(scene.outcome().is_none());
    scene.pass(TIMEOUT);
    let (_, result) = scene.outcome().expect("the time is over");
    let kept = vec![Some(true), None, Some(false)];
    assert_eq!(result.unwrap(), Reply::RenewedInPart(kept));
}

#[test]
fn a_release_goes_everywhere_and_goes_on_where_it_was_not_heard() {
    let mut scene = Scene::new(3);
    scene.hold(1);
    scene.release(2, Vec::new());
    let ids = [0, 1, 2].map(|node| scene.removal(node).0);
    let released = || Reply::Released {
        found: true,
        ordered: true,
    };
    scene.answer(0, ids[0], released());
    assert!(scene.outcome().is_none());
    scene.answer(1, ids[1], released());
    let (_, result) = scene.outcome().expect("a quorum released it");
    let told = Reply::Released {
        found: true,
        ordered: false,
    };
    assert_eq!(result.unwrap(), told);
    scene.fail(2, ids[2].0, false);
    scene.core.connected(2, scene.now);
    assert_eq!(scene.removal(2).0, ids[2], "the node is back");
    scene.answer(2, ids[2], released());
    scene.core.connected(2, scene.now);
    assert_eq!(scene.sent(2), []);
}

/// A node that refused the lock, as another's was not yet removed there, may be the first to answer.
#[test]
fn a_lock_that_a_quorum_had_is_found_whoever_answers_first() {
    let released = |found| Reply::Released {
        found,
        ordered: true,
    };
    for (had, found) in [([false, true, true], true), ([false, true, false], false)] {
        let mut scene = Scene::new(3);
        scene.hold(1);
        scene.release(2, Vec::new());
        let ids = [0, 1, 2].map(|node| scene.removal(node).0);
        scene.answer(0, ids[0], released(had[0]));
        scene.answer(1, ids[1], released(had[1]));
        assert!(scene.outcome().is_none(), "the third decides");
        scene.answer(2, ids[2], released(had[2]));
        let (_, result) = scene.outcome().expect("all have answered");
        assert!(matches!(result, Ok(Reply::Released { found: told, .. }) if told == found));
    }
}

/// Fails if a node that says nothing counts as one without the key: it may have had it, so the lock
/// need not be lost.
#[test]
fn a_lock_is_missed_only_if_no_majority_can_have_had_it() {
    for (had, missed) in [
        ([Some(true), Some(false), None], false),
        ([Some(false), None, None], false),
        ([Some(false), Some(false), None], true),
        ([Some(false), Some(false), Some(true)], true),
    ] {
        let mut scene = Scene::new(3);
        scene.hold(1);
        scene.release(2, Vec::new());
        let ids = [0, 1, 2].map(|node| scene.removal(node).0);
        for (node, found) in had.into_iter().enumerate() {
            let ordered = true;
            if let Some(found) = found {
                scene.answer(node, ids[node], Reply::Released { found, ordered });
            }
        }
        scene.pass(TIMEOUT);
        let (_, result) = scene.outcome().expect("the time is over");
        let told = matches!(result, Ok(Reply::Released { found: false, .. }));
        assert_eq!(told, missed, "{had:?}: {result:?}");
    }
}

/// Fails if the answer to a second try counts: the first may have removed the key.
#[test]
fn a_node_that_was_asked_twice_is_no_witness() {
    let mut scene = Scene::new(3);
    scene.hold(1);
    scene.release(2, Vec::new());
    let ids = [0, 1, 2].map(|node| scene.removal(node).0);
    for node in [0, 1] {
        scene.core.connected(node, scene.now);
        assert_eq!(scene.removal(node).0, ids[node]);
    }
    for (node, id) in ids.into_iter().enumerate() {
        let (found, ordered) = (false, true);
        scene.answer(node, id, Reply::Released { found, ordered });
    }
    let (_, result) = scene.outcome().expect("all have answered");
    assert!(matches!(result, Ok(Reply::Released { found: true, .. })));
}

#[test]
fn a_release_behind_acquires_in_doubt_waits_for_all_nodes() {
    let mut scene = Scene::new(3);
    scene.acquire(1);
    scene.yes(0, 1);
    scene.yes(1, 1);
    scene.expect_yes(1);
    scene.release(2, vec![OpId(1)]);
    let removals = [0, 1, 2].map(|node| scene.removal(node));
    assert_eq!(removals.map(|removal| removal.2), [0, 0, 1]);
    let released = |ordered| Reply::Released {
        found: true,
        ordered,
    };
    scene.answer(0, removals[0].0, released(true));
    scene.answer(1, removals[1].0, released(true));
    assert!(scene.outcome().is_none());
    scene.answer(2, removals[2].0, released(true));
    let (_, result) = scene.outcome().expect("all have answered");
    assert_eq!(result.unwrap(), released(true));
}

#[test]
fn the_engine_hears_of_a_quorum_not_of_a_node() {
    let mut scene = Scene::new(3);
    scene.acquire(1);
    (0..3).for_each(|node| scene.fail(node, 1, false));
    scene.expect_failure(1);
    scene.core.connected(0, scene.now);
    assert!(scene.core.next_event().is_none());
    scene.core.connected(1, scene.now);
    assert!(matches!(
        scene.core.next_event(),
        Some(StoreEvent::Connected)
    ));
    scene.core.connected(2, scene.now);
    assert!(scene.core.next_event().is_none());
}

#[test]
fn shares_are_refused() {
    let mut scene = Scene::new(3);
    let op = Op::Join {
        key: key(),
        token: token(),
        ttl: TTL,
        limit: 0,
        queue: false,
    };
    scene.submit(1, op);
    let text = scene.expect_failure(1);
    assert!(
        text.contains("`shared`") && text.contains("redis://"),
        "{text}"
    );
    assert!((0..3).all(|node| scene.sent(node).is_empty()));
}

/// The engine gives a lock that was downgraded up as a share.
#[test]
fn a_downgraded_lock_stays_whole_and_is_removed() {
    let mut scene = Scene::new(3);
    scene.hold(1);
    let renewal = Renewal {
        key: key(),
        token: token(),
        ttl: TTL,
    };
    scene.submit(2, Op::Stay(vec![renewal]));
    assert_eq!(scene.sent(0), [InFlight::Renew(OpId(2), token())]);
    let part = Op::Part {
        key: key(),
        token: token(),
        after: Vec::new(),
    };
    scene.submit(3, part);
    for node in 0..3 {
        assert_eq!(scene.removal(node).1, token());
    }
}
