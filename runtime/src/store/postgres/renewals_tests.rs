//! Batches of renewals that are divided among the sessions.

use std::time::Duration;

use super::renewals::Renewals;
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::store::{Op, OpId, Renewal, Reply, Request};

const PATIENCE: Duration = Duration::from_millis(100);
const BATCH: OpId = OpId(7);

fn batch() -> Request {
    let renewal = |number: u32| Renewal {
        key: FullKey::from(&*number.to_string()),
        token: Token::fixed(number.into()),
        ttl: Duration::from_secs(1),
    };
    Request {
        id: BATCH,
        op: Op::Stay((0..3).map(renewal).collect()),
        patience: PATIENCE,
    }
}

fn keys(request: &Request) -> Vec<&str> {
    let Op::Stay(renewals) = &request.op else {
        panic!("{request:?} is no renewal of shares");
    };
    renewals.iter().map(|renewal| &*renewal.key).collect()
}

#[test]
fn the_answers_of_both_sessions_are_one() {
    let mut renewals = Renewals::new();
    let [first, second] = renewals.divide(&batch(), &[0, 1, 0], Instant::ZERO);
    assert_eq!((keys(&first), keys(&second)), (vec!["0", "2"], vec!["1"]));
    let answer = renewals.answered(second.id, Ok(Reply::Renewed(vec![false])));
    assert!(answer.is_none(), "one is missing: {answer:?}");
    let answer = renewals.answered(first.id, Ok(Reply::Renewed(vec![true, true])));
    let (id, answer) = answer.expect("both have answered");
    assert_eq!(id, BATCH);
    assert_eq!(
        answer.expect("no failure"),
        Reply::Renewed(vec![true, false, true])
    );
    assert!(renewals.next_due().is_none());
}

#[test]
fn a_silent_session_costs_no_lease_of_the_other() {
    let mut renewals = Renewals::new();
    let [first, second] = renewals.divide(&batch(), &[0, 1, 0], Instant::ZERO);
    renewals.answered(first.id, Ok(Reply::Renewed(vec![true, true])));
    let due = renewals.next_due().expect("one is missing");
    assert_eq!(due, Instant::ZERO + PATIENCE);
    let mut overdue = renewals.overdue(due);
    let (id, answer) = overdue.pop().expect("it is due");
    assert_eq!(id, BATCH);
    let known = vec![Some(true), None, Some(true)];
    assert_eq!(
        answer.expect("a part is known"),
        Reply::RenewedInPart(known)
    );
    let late = renewals.answered(second.id, Ok(Reply::Renewed(vec![true])));
    assert!(late.is_none(), "it was answered: {late:?}");
}

#[test]
fn any_other_answer_passes() {
    let answer = Renewals::new().answered(OpId(1), Ok(Reply::Left));
    let (id, answer) = answer.expect("it is the engine's");
    assert_eq!((id, answer.expect("no failure")), (OpId(1), Reply::Left));
}
