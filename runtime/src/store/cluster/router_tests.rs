//! Tests of the router's decisions, without a server.

use std::time::Duration;

use super::map::{Map, NodeId};
use super::router::{Directed, Hint, Router};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::{Nonce, Token};
use crate::store::redis::commands::hash_slot;
use crate::store::redis::commands::redirect::RequestFlags;
use crate::store::{
    Failure, Give, GiveKind, Op, OpId, Renewal, Reply, Request, Retry, StoreEvent, Take,
};

const START: Instant = Instant::from_nanos(0);
const PATIENCE: Duration = Duration::from_millis(200);
const ASKING: RequestFlags = RequestFlags {
    asking: true,
    without_queue: false,
    alone: false,
};

/// Returns a router with three nodes. A slot belongs to the node whose number is the slot modulo
/// three.
fn router() -> Router {
    let mut map = Map::new();
    for slot in 0..hash_slot::SLOTS {
        map.set(slot, owner(slot));
    }
    let mut router = Router::new();
    router.learn(map);
    router
}

fn owner(slot: u16) -> NodeId {
    usize::from(slot % 3)
}

fn key(text: &str) -> FullKey {
    text.into()
}

fn submit(router: &mut Router, id: u64, op: Op) {
    let request = Request {
        id: OpId(id),
        op,
        patience: PATIENCE,
    };
    router.submit(request, START);
}

fn acquire(text: &str) -> Op {
    let token = Token::random(Nonce::new());
    Op::Take(Take::lock(key(text), token, Duration::from_secs(2), "test"))
}

fn release(text: &str, after: &[u64]) -> Op {
    Op::Give(Give {
        after: after.iter().copied().map(OpId).collect(),
        ..Give::now(key(text), Token::random(Nonce::new()), GiveKind::Lock)
    })
}

fn keep(keys: &[&str], shares: bool) -> Op {
    Op::Keep {
        renewals: renewals(keys),
        shares,
    }
}

fn renewals(keys: &[&str]) -> Vec<Renewal> {
    let renewal = |text: &&str| Renewal {
        key: key(text),
        token: Token::random(Nonce::new()),
        ttl: Duration::from_secs(2),
    };
    keys.iter().map(renewal).collect()
}

fn refused(code: &'static str) -> Result<Reply, Failure> {
    let retry = match code {
        "MOVED" | "ASK" => Retry::Never,
        _ => Retry::Later,
    };
    Err(Failure::unavailable(code, code.to_owned(), retry, false))
}

fn hint(slot: u16, node: NodeId, once: bool) -> Hint {
    Hint { slot, node, once }
}

/// Returns the request in the outbox, which must be the only one.
#[track_caller]
fn sent(router: &mut Router) -> Directed {
    let mut outbox = router.take_outbox();
    assert_eq!(outbox.len(), 1, "{outbox:?}");
    outbox.remove(0)
}

fn events(router: &mut Router) -> Vec<StoreEvent> {
    std::iter::from_fn(|| router.next_event()).collect()
}

/// Returns the last event, which must be an answer to the engine.
#[track_caller]
fn answer(router: &mut Router) -> (u64, Result<Reply, Failure>) {
    match events(router).pop() {
        Some(StoreEvent::Reply(OpId(id), result)) => (id, result),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_moved_slot_is_stored_and_followed() {
    let mut router = router();
    let slot = hash_slot::of("k");
    let new = owner(slot) + 10;
    submit(&mut router, 1, acquire("k"));
    assert_eq!(sent(&mut router).node, owner(slot));
    router.answer(
        OpId(1),
        refused("MOVED"),
        Some(hint(slot, new, false)),
        START,
    );
    let again = sent(&mut router);
    assert_eq!((again.node, again.flags), (new, RequestFlags::default()));
    assert!(router.take_stale(), "the map is to be read");
    submit(&mut router, 2, acquire("k"));
    assert_eq!(sent(&mut router).node, new, "it was learned");
    assert!(events(&mut router).is_empty());
}

#[test]
fn an_ask_redirect_is_followed_once() {
    let mut router = router();
    let slot = hash_slot::of("k");
    let new = owner(slot) + 10;
    submit(&mut router, 1, keep(&["k"], false));
    sent(&mut router);
    router.answer(OpId(1), refused("ASK"), Some(hint(slot, new, true)), START);
    let again = sent(&mut router);
    assert_eq!((again.node, again.flags), (new, ASKING));
    router.answer(OpId(1), Ok(Reply::Renewed(vec![true])), None, START);
    let (1, Ok(Reply::Renewed(kept))) = answer(&mut router) else {
        panic!("it was renewed");
    };
    assert_eq!(kept, [true]);
    submit(&mut router, 2, keep(&["k"], false));
    let next = sent(&mut router);
    assert_eq!(
        (next.node, next.flags),
        (owner(slot), RequestFlags::default())
    );
}

#[test]
fn circular_redirects_are_an_error() {
    let mut router = router();
    let slot = hash_slot::of("k");
    submit(&mut router, 1, acquire("k"));
    let mut hops = 0;
    while let Some(directed) = router.take_outbox().pop() {
        hops += 1;
        let next = (directed.node + 1) % 3;
        router.answer(
            OpId(1),
            refused("MOVED"),
            Some(hint(slot, next, false)),
            START,
        );
    }
    assert!((2..10).contains(&hops), "{hops}");
    let (1, Err(failure)) = answer(&mut router) else {
        panic!("it fails");
    };
    assert_eq!(failure.retry, Retry::Later);
    assert!(!failure.executed);
}

/// A node redirects an acquire after the removal of its key was sent. Fails if the acquire is sent
/// again, because it could take the key after the removal.
#[test]
fn an_undone_acquire_is_not_sent_again() {
    let mut router = router();
    let slot = hash_slot::of("k");
    let new = owner(slot) + 10;
    submit(&mut router, 1, acquire("k"));
    submit(&mut router, 2, release("k", &[1]));
    assert_eq!(router.take_outbox().len(), 2);
    router.answer(
        OpId(1),
        refused("MOVED"),
        Some(hint(slot, new, false)),
        START,
    );
    let (1, Err(failure)) = answer(&mut router) else {
        panic!("the acquire fails");
    };
    assert!(!failure.executed, "it was not carried out");
    assert!(router.take_outbox().is_empty());
    router.answer(
        OpId(2),
        refused("MOVED"),
        Some(hint(slot, new, false)),
        START,
    );
    assert_eq!(sent(&mut router).node, new, "the removal goes on");
}

/// A removal settles the acquires whose keys it removes: they are undone. Fails if they count as
/// settled before a node has carried out the removal, or are still pending afterwards.
#[test]
fn a_removal_settles_its_acquires() {
    let mut router = router();
    submit(&mut router, 1, release("k", &[7, 8]));
    sent(&mut router);
    router.answer(OpId(1), refused("TRYAGAIN"), None, START);
    assert!(router.take_settled().is_empty(), "it was not carried out");
    submit(&mut router, 2, release("k", &[7, 8]));
    sent(&mut router);
    let released = Reply::Released {
        found: true,
        ordered: false,
    };
    router.answer(OpId(2), Ok(released), None, START);
    assert_eq!(router.take_settled(), [OpId(7), OpId(8)]);
    assert!(router.take_settled().is_empty());
}

#[test]
fn renewals_are_split_by_slot_and_their_answers_combined() {
    let mut router = router();
    let keys = ["a", "{b}1", "c", "{b}2"];
    submit(&mut router, 1, keep(&keys, false));
    let fragments = router.take_outbox();
    assert_eq!(fragments.len(), 3);
    for fragment in fragments.into_iter().rev() {
        assert!(events(&mut router).is_empty());
        let Op::Keep { renewals, .. } = &fragment.request.op else {
            panic!("a renewal");
        };
        assert_eq!(fragment.node, owner(hash_slot::of(&renewals[0].key)));
        let kept = renewals
            .iter()
            .map(|renewal| &*renewal.key != "{b}1")
            .collect();
        router.answer(fragment.request.id, Ok(Reply::Renewed(kept)), None, START);
    }
    let (1, Ok(reply)) = answer(&mut router) else {
        panic!("it is answered");
    };
    assert_eq!(reply, Reply::Renewed(vec![true, false, true, true]));
    assert_eq!(router.next_due(), None);
}

#[test]
fn a_silent_node_affects_only_its_own_leases() {
    let mut router = router();
    submit(&mut router, 1, keep(&["a", "b", "c"], false));
    let mut fragments = router.take_outbox();
    let silent = fragments.remove(0);
    for fragment in fragments {
        router.answer(
            fragment.request.id,
            Ok(Reply::Renewed(vec![true])),
            None,
            START,
        );
    }
    router.tick(START);
    assert!(events(&mut router).is_empty());
    assert_eq!(router.next_due(), Some(START + PATIENCE));
    router.tick(START + PATIENCE);
    let (1, Ok(Reply::RenewedInPart(kept))) = answer(&mut router) else {
        panic!("it is answered in part");
    };
    assert_eq!(kept.iter().filter(|one| **one == Some(true)).count(), 2);
    assert_eq!(kept.iter().filter(|one| one.is_none()).count(), 1);
    let late = Ok(Reply::Renewed(vec![true]));
    router.answer(silent.request.id, late, None, START + PATIENCE * 2);
    assert!(events(&mut router).is_empty(), "it was answered before");
}

/// While a slot moves, some of its keys are on the old node and some on the new one. Fails if the
/// leases of these keys are then not renewed one by one.
#[test]
fn leases_of_a_migrating_slot_are_renewed_one_by_one() {
    let mut router = router();
    let slot = hash_slot::of("{s}1");
    submit(&mut router, 1, keep(&["{s}1", "{s}2"], true));
    let both = sent(&mut router);
    router.answer(both.request.id, refused("TRYAGAIN"), None, START);
    let fragments = router.take_outbox();
    assert_eq!(fragments.len(), 2);
    for fragment in fragments {
        router.answer(fragment.request.id, refused("TRYAGAIN"), None, START);
        let bare = sent(&mut router);
        let expected = RequestFlags {
            asking: false,
            without_queue: true,
            ..RequestFlags::default()
        };
        assert_eq!((bare.node, bare.flags), (owner(slot), expected));
        router.answer(
            bare.request.id,
            refused("ASK"),
            Some(hint(slot, 7, true)),
            START,
        );
        let there = sent(&mut router);
        assert!(there.flags.asking && there.flags.without_queue);
        assert_eq!(there.node, 7);
        let kept = Ok(Reply::Renewed(vec![true]));
        router.answer(there.request.id, kept, None, START);
    }
    let (1, Ok(reply)) = answer(&mut router) else {
        panic!("it is answered");
    };
    assert_eq!(reply, Reply::Renewed(vec![true, true]));
}

#[test]
fn messages_from_other_nodes_are_ignored() {
    let mut router = router();
    for node in 0..3 {
        router.receive(node, StoreEvent::Turn(key("k")));
        router.receive(node, StoreEvent::Wanted(key("k")));
    }
    assert_eq!(events(&mut router).len(), 2);
}

/// After a failed request, the engine waits before it retries. Fails if a new slot map does not end
/// this wait, or if the same map sends a second `Connected`.
#[test]
fn a_new_slot_map_ends_waits_for_old_owners() {
    let mut router = router();
    let mut map = router.map().clone();
    let slot = hash_slot::of("k");
    map.set(slot, 9);
    submit(&mut router, 1, acquire("k"));
    sent(&mut router);
    router.answer(OpId(1), refused("CLUSTERDOWN"), None, START);
    assert!(router.take_stale() && !router.take_stale());
    assert!(answer(&mut router).1.is_err());
    router.learn(map.clone());
    assert!(matches!(events(&mut router)[..], [StoreEvent::Connected]));
    router.learn(map);
    assert!(events(&mut router).is_empty());
}

#[test]
fn a_slot_without_a_node_is_an_error() {
    let mut router = Router::new();
    submit(&mut router, 1, acquire("k"));
    let (1, Err(failure)) = answer(&mut router) else {
        panic!("nobody can be asked");
    };
    assert_eq!(failure.code(), "CLUSTERDOWN");
    assert!(router.take_stale());
}
