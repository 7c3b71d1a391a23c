//! Tests of the core's decisions, without I/O.

use std::time::Duration;

use super::test_quorum::{SentOp, TIMEOUT, TTL, TestQuorum, key, token};
use crate::base::token::Token;
use crate::store::{Give, GiveKind, Op, OpId, Renewal, Reply, Retry, StoreEvent, Take, TakeKind};

#[test]
fn all_nodes_are_asked_at_once_and_two_of_three_suffice() {
    let mut quorum = TestQuorum::new(3);
    quorum.acquire(1);
    for node in 0..3 {
        assert_eq!(quorum.sent(node), [SentOp::Acquire(OpId(1), token())]);
    }
    quorum.yes(2, 1);
    assert!(quorum.outcome().is_none(), "one of three decided");
    quorum.yes(0, 1);
    quorum.expect_yes(1);
    quorum.yes(1, 1);
    assert!(quorum.outcome().is_none(), "it was answered twice");
    assert!((0..3).all(|node| quorum.sent(node).is_empty()));
}

#[test]
fn a_silent_majority_times_out_and_is_cleaned() {
    let mut quorum = TestQuorum::new(3);
    quorum.acquire(1);
    (0..3).for_each(|node| drop(quorum.sent(node)));
    quorum.yes(0, 1);
    quorum.pass(TIMEOUT * 9 / 10);
    assert!(quorum.outcome().is_none());
    quorum.pass(TIMEOUT / 10);
    let text = quorum.expect_failure(1);
    assert!(text.contains("node 1") && text.contains("node 2"), "{text}");
    let behind = [0, 1, 2].map(|node| quorum.removal(node).2);
    assert_eq!(
        behind,
        [0, 1, 1],
        "the silent nodes may still carry the acquire out"
    );
}

#[test]
fn a_late_success_of_a_failed_acquire_is_removed() {
    let mut quorum = TestQuorum::new(3);
    quorum.acquire(1);
    quorum.no(0, 1);
    quorum.no(1, 1);
    quorum.expect_held(1);
    let (first, _, after) = quorum.removal(2);
    assert_eq!(after, 1);
    quorum.yes(2, 1);
    // The removal was sent on another connection than the acquire, so the node may have carried out
    // the removal before the acquire. The removal must therefore be repeated.
    let unordered = Reply::Released {
        found: false,
        ordered: false,
    };
    quorum.answer(2, first, unordered);
    quorum.pass(Duration::from_millis(50));
    let (second, _, after) = quorum.removal(2);
    assert_eq!(
        (second, after),
        (first, 0),
        "tried again, with nothing open"
    );
    let ordered = Reply::Released {
        found: true,
        ordered: true,
    };
    quorum.answer(2, second, ordered);
    quorum.pass(TTL);
    assert!(quorum.sent(2).is_empty());
}

#[test]
fn each_try_of_a_call_has_a_new_token() {
    let mut quorum = TestQuorum::new(3);
    quorum.acquire(1);
    quorum.no(0, 1);
    quorum.no(1, 1);
    quorum.expect_held(1);
    (0..3).for_each(|node| drop(quorum.sent(node)));
    quorum.acquire(2);
    let tokens: Vec<_> = (0..3)
        .map(|node| match quorum.sent(node)[..] {
            [SentOp::Acquire(OpId(2), token)] => token,
            ref other => panic!("{other:?}"),
        })
        .collect();
    assert_ne!(tokens[0], token(), "its removal may still come");
    assert_eq!(tokens, [tokens[0]; 3]);
    (0..2).for_each(|node| quorum.yes(node, 2));
    quorum.expect_yes(2);
    quorum.renew(3);
    assert_eq!(quorum.sent(0), [SentOp::Renew(OpId(3), tokens[0])]);
    quorum.release(4, Vec::new());
    assert_eq!(quorum.removal(0).1, tokens[0]);
}

#[test]
fn repeating_an_undecided_request_removes_nothing() {
    let mut quorum = TestQuorum::new(3);
    quorum.acquire(1);
    quorum.acquire(2);
    quorum.expect_failure(1);
    quorum.yes(0, 1);
    quorum.yes(1, 1);
    assert!(quorum.outcome().is_none(), "the first try was counted");
    quorum.yes(0, 2);
    quorum.yes(1, 2);
    quorum.expect_yes(2);
    quorum.pass(TIMEOUT);
    for node in 0..3 {
        let sent = quorum.sent(node);
        let acquires = sent
            .iter()
            .all(|sent| matches!(sent, SentOp::Acquire(_, wire) if *wire == token()));
        assert!(acquires, "{sent:?}");
    }
}

#[test]
fn an_acquire_longer_than_half_the_ttl_fails() {
    let mut quorum = TestQuorum::new(3);
    quorum.acquire(1);
    // Simulates a paused process: the time passes without a call of `tick`, so the question does
    // not expire.
    quorum.now = quorum.now + TTL / 2 + Duration::from_millis(1);
    quorum.yes(0, 1);
    quorum.yes(1, 1);
    let text = quorum.expect_failure(1);
    assert!(text.contains("half of the ttl"), "{text}");
    assert_eq!(quorum.removal(2).2, 1);
}

#[test]
fn a_young_node_can_refuse_but_not_grant() {
    let mut quorum = TestQuorum::young(3);
    quorum.meet(0, "old", 3_600);
    quorum.meet(1, "young", 11);
    quorum.meet(2, "young too", 11);
    quorum.acquire(1);
    (0..3).for_each(|node| quorum.yes(node, 1));
    let text = quorum.expect_failure(1);
    assert!(text.contains("restarted recently"), "{text}");
    quorum.acquire(2);
    quorum.no(1, 2);
    quorum.no(2, 2);
    quorum.expect_held(2);
    quorum.pass(Duration::from_secs(1));
    quorum.acquire(3);
    quorum.yes(0, 3);
    quorum.yes(1, 3);
    quorum.expect_yes(3);
}

#[test]
fn a_new_connection_does_not_shorten_the_quarantine() {
    let mut quorum = TestQuorum::new(3);
    for uptime in [0, 1, 3_600] {
        quorum.meet(1, "anew", uptime);
        quorum.meet(2, "anew too", uptime);
    }
    quorum.acquire(1);
    (0..3).for_each(|node| quorum.yes(node, 1));
    quorum.expect_failure(1);
}

#[test]
fn one_server_under_two_names_has_one_vote() {
    let mut quorum = TestQuorum::new(3);
    quorum.meet(2, "run 0", 3_600);
    assert!(
        quorum
            .core
            .unfit(2)
            .is_some_and(|why| why.contains("node 0"))
    );
    quorum.acquire(1);
    assert_eq!(quorum.sent(2), [], "it would repeat the answer of node 0");
    quorum.yes(0, 1);
    quorum.fail(1, 1, false);
    quorum.expect_failure(1);
}

#[test]
fn a_renewal_needs_a_quorum_to_succeed_or_fail() {
    let renewed = |votes: [Option<bool>; 3]| {
        let mut quorum = TestQuorum::new(3);
        quorum.hold(1);
        quorum.renew(2);
        for (node, vote) in votes.into_iter().enumerate() {
            match vote {
                Some(kept) => quorum.answer(node, OpId(2), Reply::Renewed(vec![kept])),
                None => quorum.fail(node, 2, true),
            }
        }
        let (_, result) = quorum.outcome().expect("all have answered");
        result.map_err(|failure| failure.retry)
    };
    let (yes, no, silent) = (Some(true), Some(false), None);
    assert_eq!(renewed([yes, silent, yes]), Ok(Reply::Renewed(vec![true])));
    assert_eq!(renewed([no, yes, no]), Ok(Reply::Renewed(vec![false])));
    assert_eq!(renewed([no, silent, yes]), Err(Retry::Later));
    assert_eq!(renewed([no, silent, silent]), Err(Retry::Later));
}

#[test]
fn one_undecided_key_does_not_delay_the_others() {
    let mut quorum = TestQuorum::new(3);
    let renewal = |number: u128| Renewal {
        key: number.to_string().into(),
        token: Token::fixed(number),
        ttl: TTL,
    };
    let renewals = (0..3).map(renewal).collect();
    let shares = false;
    quorum.submit(1, Op::Keep { renewals, shares });
    quorum.answer(0, OpId(1), Reply::Renewed(vec![true, true, false]));
    quorum.answer(1, OpId(1), Reply::Renewed(vec![true, false, false]));
    assert!(quorum.outcome().is_none());
    quorum.pass(TIMEOUT);
    let (_, result) = quorum.outcome().expect("the time is over");
    let kept = vec![Some(true), None, Some(false)];
    assert_eq!(result.unwrap(), Reply::RenewedInPart(kept));
}

#[test]
fn a_release_is_repeated_on_nodes_without_an_answer() {
    let mut quorum = TestQuorum::new(3);
    quorum.hold(1);
    quorum.release(2, Vec::new());
    let ids = [0, 1, 2].map(|node| quorum.removal(node).0);
    let released = || Reply::Released {
        found: true,
        ordered: true,
    };
    quorum.answer(0, ids[0], released());
    assert!(quorum.outcome().is_none());
    quorum.answer(1, ids[1], released());
    let (_, result) = quorum.outcome().expect("a quorum released it");
    let reported = Reply::Released {
        found: true,
        ordered: false,
    };
    assert_eq!(result.unwrap(), reported);
    quorum.fail(2, ids[2].0, false);
    quorum.core.connected(2, quorum.now);
    assert_eq!(quorum.removal(2).0, ids[2], "the node is back");
    quorum.answer(2, ids[2], released());
    quorum.core.connected(2, quorum.now);
    assert_eq!(quorum.sent(2), []);
}

/// Fails if the outcome of a release depends on the order of the nodes' answers. A node without the
/// lock's key may answer first: it refused the acquire because of another holder's key.
#[test]
fn a_release_finds_the_quorum_in_any_order_of_answers() {
    let released = |found| Reply::Released {
        found,
        ordered: true,
    };
    for (had, found) in [([false, true, true], true), ([false, true, false], false)] {
        let mut quorum = TestQuorum::new(3);
        quorum.hold(1);
        quorum.release(2, Vec::new());
        let ids = [0, 1, 2].map(|node| quorum.removal(node).0);
        quorum.answer(0, ids[0], released(had[0]));
        quorum.answer(1, ids[1], released(had[1]));
        assert!(quorum.outcome().is_none(), "the third decides");
        quorum.answer(2, ids[2], released(had[2]));
        let (_, result) = quorum.outcome().expect("all have answered");
        assert!(matches!(result, Ok(Reply::Released { found: reported, .. }) if reported == found));
    }
}

/// Fails if a release counts a silent node as a node without the key. The silent node may have had
/// the key, so the release must not report the lock lost.
#[test]
fn a_silent_node_may_have_had_the_lock() {
    for (had, missed) in [
        ([Some(true), Some(false), None], false),
        ([Some(false), None, None], false),
        ([Some(false), Some(false), None], true),
        ([Some(false), Some(false), Some(true)], true),
    ] {
        let mut quorum = TestQuorum::new(3);
        quorum.hold(1);
        quorum.release(2, Vec::new());
        let ids = [0, 1, 2].map(|node| quorum.removal(node).0);
        for (node, found) in had.into_iter().enumerate() {
            let ordered = true;
            if let Some(found) = found {
                quorum.answer(node, ids[node], Reply::Released { found, ordered });
            }
        }
        quorum.pass(TIMEOUT);
        let (_, result) = quorum.outcome().expect("the time is over");
        let reported = matches!(result, Ok(Reply::Released { found: false, .. }));
        assert_eq!(reported, missed, "{had:?}: {result:?}");
    }
}

/// Fails if a release reports the lock lost because the second attempt at each removal found no
/// key. The first attempt may have removed the key.
#[test]
fn a_repeated_removal_does_not_prove_a_loss() {
    let mut quorum = TestQuorum::new(3);
    quorum.hold(1);
    quorum.release(2, Vec::new());
    let ids = [0, 1, 2].map(|node| quorum.removal(node).0);
    for node in [0, 1] {
        quorum.core.connected(node, quorum.now);
        assert_eq!(quorum.removal(node).0, ids[node]);
    }
    for (node, id) in ids.into_iter().enumerate() {
        let (found, ordered) = (false, true);
        quorum.answer(node, id, Reply::Released { found, ordered });
    }
    let (_, result) = quorum.outcome().expect("all have answered");
    assert!(matches!(result, Ok(Reply::Released { found: true, .. })));
}

#[test]
fn a_release_behind_undecided_acquires_waits_for_all_nodes() {
    let mut quorum = TestQuorum::new(3);
    quorum.acquire(1);
    quorum.yes(0, 1);
    quorum.yes(1, 1);
    quorum.expect_yes(1);
    quorum.release(2, vec![OpId(1)]);
    let removals = [0, 1, 2].map(|node| quorum.removal(node));
    assert_eq!(removals.map(|removal| removal.2), [0, 0, 1]);
    let released = |ordered| Reply::Released {
        found: true,
        ordered,
    };
    quorum.answer(0, removals[0].0, released(true));
    quorum.answer(1, removals[1].0, released(true));
    assert!(quorum.outcome().is_none());
    quorum.answer(2, removals[2].0, released(true));
    let (_, result) = quorum.outcome().expect("all have answered");
    assert_eq!(result.unwrap(), released(true));
}

#[test]
fn the_engine_is_notified_only_of_quorum_changes() {
    let mut quorum = TestQuorum::new(3);
    quorum.acquire(1);
    (0..3).for_each(|node| quorum.fail(node, 1, false));
    quorum.expect_failure(1);
    // Each new connection is met first.
    quorum.meet(0, "run 0", 3_600);
    quorum.core.connected(0, quorum.now);
    assert!(quorum.core.next_event().is_none());
    quorum.meet(1, "run 1", 3_600);
    quorum.core.connected(1, quorum.now);
    assert!(matches!(
        quorum.core.next_event(),
        Some(StoreEvent::Connected)
    ));
    quorum.core.connected(2, quorum.now);
    assert!(quorum.core.next_event().is_none());
}

#[test]
fn a_quorum_refuses_shared_locks() {
    let mut quorum = TestQuorum::new(3);
    let take = Take {
        kind: TakeKind::Share { limit: 0 },
        ..Take::lock(key(), token(), TTL, "")
    };
    quorum.submit(1, Op::Take(take));
    let text = quorum.expect_failure(1);
    assert!(
        text.contains("`shared`") && text.contains("redis://"),
        "{text}"
    );
    assert!((0..3).all(|node| quorum.sent(node).is_empty()));
}

/// A downgraded lock stays exclusive on a quorum, but the engine then releases it as a share. Fails
/// if this release does not remove the exclusive lock from the nodes.
#[test]
fn a_downgraded_lock_stays_exclusive_until_removed() {
    let mut quorum = TestQuorum::new(3);
    quorum.hold(1);
    let renewal = Renewal {
        key: key(),
        token: token(),
        ttl: TTL,
    };
    let (renewals, shares) = (vec![renewal], true);
    quorum.submit(2, Op::Keep { renewals, shares });
    assert_eq!(quorum.sent(0), [SentOp::Renew(OpId(2), token())]);
    let part = Give::now(key(), token(), GiveKind::Share);
    quorum.submit(3, Op::Give(part));
    for node in 0..3 {
        assert_eq!(quorum.removal(node).1, token());
    }
}

/// A forced release meets the holder on one node only, because the lock changed hands meanwhile.
/// Fails if the engine is not notified, or is notified once for each node.
#[test]
fn a_lock_taken_away_on_one_node_is_lost() {
    let mut quorum = TestQuorum::new(5);
    quorum.hold(1);
    quorum.core.revoked(&key(), token().half());
    match quorum.core.next_event() {
        Some(StoreEvent::Revoked { key: lost, lease }) => {
            assert_eq!((lost, lease), (key(), token().half()));
        }
        other => panic!("the holder is not notified: {other:?}"),
    }
    quorum.core.revoked(&key(), token().half());
    assert!(quorum.core.next_event().is_none(), "notified twice");
}
