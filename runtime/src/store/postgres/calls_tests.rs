//! Tests of the requests that are sent together, and of their order.

use std::time::Duration;

use super::calls::{MOST, Packer, refusal};
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::store::{Give, GiveKind, Op, OpId, Renewal, Request, Take};

fn acquire(key: &str) -> Op {
    let (token, ttl) = (Token::fixed(1), Duration::from_secs(1));
    Op::Take(Take::lock(key.into(), token, ttl, "test"))
}

fn acquire_all(keys: &[&str]) -> Op {
    Op::TakeAll {
        keys: keys
            .iter()
            .map(|key| ((*key).into(), Token::fixed(1)))
            .collect(),
        ttl: Duration::from_secs(1),
        function: "test",
    }
}

fn release(key: &str) -> Op {
    Op::Give(Give::now(key.into(), Token::fixed(1), GiveKind::Lock))
}

fn renew(keys: &[&str]) -> Op {
    let renewal = |key: &&str| Renewal {
        key: FullKey::from(*key),
        token: Token::fixed(1),
        ttl: Duration::from_secs(1),
    };
    Op::Keep {
        renewals: keys.iter().map(renewal).collect(),
        shares: false,
    }
}

/// Packs requests into calls of SQL functions. Returns, for each of these calls, the positions of
/// its requests in `ops`.
fn packed(ops: impl IntoIterator<Item = Op>) -> Vec<Vec<u64>> {
    let mut packer = Packer::default();
    for (number, op) in (0..).zip(ops) {
        let request = Request {
            id: OpId(number),
            op,
            patience: Duration::from_secs(1),
        };
        packer.add(request, true);
    }
    let calls = packer.finish();
    let ids = calls.iter().map(|call| call.ids().map(|id| id.0).collect());
    ids.collect()
}

#[test]
fn requests_of_one_kind_are_sent_together() {
    let ops = [
        acquire("a"),
        release("b"),
        acquire("c"),
        renew(&["d"]),
        release("e"),
    ];
    assert_eq!(packed(ops), [vec![0, 2], vec![1, 4], vec![3]]);
    assert_eq!(packed([acquire("a"), acquire("a")]), [[0, 1]]);
}

#[test]
fn requests_on_one_key_keep_their_order() {
    let again = [release("a"), acquire("a"), release("b"), acquire("b")];
    assert_eq!(packed(again), [[0, 2], [1, 3]]);
    let undone = [acquire("a"), release("a"), acquire("a"), release("b")];
    assert_eq!(packed(undone), [vec![0], vec![1, 3], vec![2]]);
    let kept = [acquire("a"), renew(&["b", "a"]), acquire("b"), release("b")];
    assert_eq!(packed(kept), [[0], [1], [2], [3]]);
    let all = [
        release("b"),
        acquire_all(&["a", "b"]),
        release("b"),
        acquire("c"),
    ];
    assert_eq!(packed(all), [[0], [1], [2], [3]]);
}

#[test]
fn the_number_of_keys_in_a_call_is_bounded() {
    let keys: Vec<_> = (0..=MOST).map(|key| key.to_string()).collect();
    let calls = packed(keys.iter().map(|key| acquire(key)));
    let sizes: Vec<_> = calls.iter().map(Vec::len).collect();
    assert_eq!(sizes, [MOST, 1]);
}

#[test]
fn keys_with_a_nul_character_are_refused() {
    assert!(refusal(&acquire("a")).is_none());
    for op in [acquire("a\0"), acquire_all(&["a", "\0"]), renew(&["a\0b"])] {
        assert!(refusal(&op).is_some(), "{op:?}");
    }
}
