//! Which session gets which request.

use std::time::Duration;

use super::routes::{Load, OpenKeys, Route, route};
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::store::{Op, Renewal};

fn release(key: &FullKey) -> Op {
    Op::Release {
        key: key.clone(),
        token: Token::fixed(1),
        keep: None,
        makes_way: false,
        after: Vec::new(),
    }
}

fn acquire_all(keys: &[&FullKey]) -> Op {
    let keys = keys.iter().map(|key| ((*key).clone(), Token::fixed(1)));
    Op::AcquireAll {
        keys: keys.collect(),
        ttl: Duration::from_secs(1),
        function: "test",
    }
}

fn renew(keys: &[&FullKey]) -> Op {
    let renewal = |key: &&FullKey| Renewal {
        key: (*key).clone(),
        token: Token::fixed(1),
        ttl: Duration::from_secs(1),
    };
    Op::Renew(keys.iter().map(renewal).collect())
}

fn load(open_keys: &OpenKeys, is_fit: bool) -> Load<'_> {
    Load { open_keys, is_fit }
}

/// The route of `op` beside these requests under way in each session.
fn beside(first: &[Op], second: &[Op], op: &Op) -> Route {
    let open = [first, second].map(|ops| {
        let mut open = OpenKeys::default();
        for op in ops {
            open.add(op);
        }
        open
    });
    route(op, [load(&open[0], true), load(&open[1], true)])
}

/// So many keys of each half.
fn keys<const N: usize>(half: usize) -> [FullKey; N] {
    let all = (0..).map(|number: u32| FullKey::from(&*number.to_string()));
    let mut own = all.filter(|key| key.half() == half);
    std::array::from_fn(|_| own.next().expect("there are more"))
}

#[test]
fn each_session_has_half_of_the_keys() {
    let ([a], [x]) = (keys(0), keys(1));
    assert_eq!(beside(&[], &[], &release(&a)), Route::Session(0));
    assert_eq!(beside(&[], &[], &release(&x)), Route::Session(1));
    let (halves, all): (usize, usize) = (
        (0..1_000)
            .map(|n| FullKey::from(&*n.to_string()).half())
            .sum(),
        1_000,
    );
    assert!(
        (all / 3..all * 2 / 3).contains(&halves),
        "{halves} of {all}"
    );
}

#[test]
fn a_key_follows_its_requests_under_way() {
    let ([a, b], [x]) = (keys(0), keys(1));
    let together = || acquire_all(&[&a, &x]);
    assert_eq!(beside(&[together()], &[], &release(&x)), Route::Session(0));
    assert_eq!(beside(&[], &[together()], &release(&a)), Route::Session(1));
    assert_eq!(beside(&[], &[together()], &release(&b)), Route::Session(0));
    assert_eq!(beside(&[release(&a)], &[], &together()), Route::Session(0));
    assert_eq!(beside(&[], &[release(&x)], &together()), Route::Session(1));
}

#[test]
fn keys_under_way_in_both_sessions_cannot_be_asked_for_together() {
    let ([a], [x]) = (keys(0), keys(1));
    let together = acquire_all(&[&a, &x]);
    assert_eq!(
        beside(&[release(&a)], &[release(&x)], &together),
        Route::Apart
    );
}

#[test]
fn renewals_of_both_halves_go_to_both_sessions() {
    let ([a, b], [x]) = (keys(0), keys(1));
    assert_eq!(beside(&[], &[], &renew(&[&a, &b])), Route::Session(0));
    assert_eq!(beside(&[], &[], &renew(&[&x])), Route::Session(1));
    assert_eq!(
        beside(&[], &[], &renew(&[&a, &x, &b])),
        Route::Both(vec![0, 1, 0])
    );
}

#[test]
fn renewals_keep_their_order_with_other_requests() {
    let ([a], [x]) = (keys(0), keys(1));
    let together = || acquire_all(&[&a, &x]);
    assert_eq!(
        beside(&[], &[together()], &renew(&[&a, &x])),
        Route::Session(1)
    );
    assert_eq!(
        beside(&[], &[renew(&[&a])], &release(&a)),
        Route::Session(1)
    );
}

#[test]
fn the_other_session_has_all_keys_while_only_that_one_is_fit() {
    let ([a], [x]) = (keys(0), keys(1));
    let (mut open, none) = (OpenKeys::default(), OpenKeys::default());
    open.add(&release(&a));
    let route = |op: &Op, fit: [bool; 2]| route(op, [load(&open, fit[0]), load(&none, fit[1])]);
    assert_eq!(route(&release(&x), [true, false]), Route::Session(0));
    assert_eq!(route(&release(&x), [false, false]), Route::Session(1));
    let follows = route(&release(&a), [false, true]);
    assert_eq!(follows, Route::Session(0), "it must follow");
}

/// Fails if a key stays in its session when its requests have been answered.
#[test]
fn an_answered_request_leaves_its_key_free() {
    let ([a], [x]) = (keys(0), keys(1));
    let (mut open, none) = (OpenKeys::default(), OpenKeys::default());
    let twice = [release(&x), acquire_all(&[&a, &x])];
    for op in &twice {
        open.add(op);
    }
    open.remove(&twice[0]);
    assert_eq!(
        route(&release(&x), [load(&open, true), load(&none, true)]),
        Route::Session(0)
    );
    open.remove(&twice[1]);
    assert_eq!(
        route(&release(&x), [load(&open, true), load(&none, true)]),
        Route::Session(1)
    );
}
