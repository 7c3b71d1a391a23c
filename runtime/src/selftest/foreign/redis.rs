//! Checks of the parsers for answers of Redis servers.

use std::time::Duration;

use redis::{PushInfo, PushKind, Value};

use super::Input;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::store::cluster::topology;
use crate::store::kept::{Kept, Record};
use crate::store::redis::commands::hash_slot::SLOTS;
use crate::store::redis::commands::redirect::Redirect;
use crate::store::redis::commands::reply::{self, Scripts};
use crate::store::redis::look::answer;
use crate::store::redis::sentinel;
use crate::store::redis::server_info::Info;
use crate::store::redis::wire::framer::Framer;
use crate::store::{Give, GiveKind, Op, Renewal, Reply, Take, TakeKind};

/// Checks the framer, which splits the server's byte stream into replies. It must return the same
/// replies for any split of the stream into reads. Framer and parser must agree on the end of each
/// reply.
///
/// # Panics
///
/// If a property does not hold.
pub fn wire(bytes: &[u8]) {
    let (pieces, stream) = bytes.split_at(bytes.len().min(4));
    let pieces: Vec<_> = pieces
        .iter()
        .map(|piece| usize::from(piece % 40) + 1)
        .collect();
    let (at_once, refused_at_once) = passed(stream, &[usize::MAX]);
    let (in_pieces, refused) = passed(stream, &pieces);
    assert_eq!(
        refused_at_once, refused,
        "the verdict depends on the pieces"
    );
    assert_eq!(at_once, in_pieces, "the replies depend on the pieces");
    assert!(stream.starts_with(&in_pieces), "other bytes come out");
    let mut framer = Framer::new();
    let mut begin = 0;
    for (at, byte) in stream.iter().enumerate() {
        if framer.accept(&[*byte]).is_err() {
            break;
        }
        if framer.is_between_replies() {
            agrees_with_the_framer(&stream[begin..=at]);
            begin = at + 1;
        }
    }
}

fn passed(stream: &[u8], pieces: &[usize]) -> (Vec<u8>, Option<String>) {
    let (mut framer, mut out, mut rest) = (Framer::new(), Vec::new(), stream);
    for piece in pieces.iter().chain([&usize::MAX]).cycle() {
        let (now, later) = rest.split_at((*piece).min(rest.len()));
        rest = later;
        let refused = framer.accept(now).err();
        while let Some(reply) = framer.next() {
            out.extend_from_slice(reply);
        }
        if refused.is_some() || rest.is_empty() {
            return (out, refused.map(|garbage| garbage.to_string()));
        }
    }
    unreachable!("the pieces repeat")
}

fn agrees_with_the_framer(reply: &[u8]) {
    // The framer has seen the end of this reply, so the parser must not wait for more bytes. It may
    // find the reply malformed, which ends the connection.
    if let Err(error) = redis::parse_redis_value(reply) {
        assert!(
            !error.is_connection_dropped(),
            "the parser waits after {}",
            reply.escape_ascii()
        );
    }
    let shorter = redis::parse_redis_value(&reply[..reply.len() - 1]);
    assert!(
        shorter.is_err(),
        "the parser ends before {}",
        reply.escape_ascii()
    );
}

/// Returns the value that the client reads from these bytes.
fn value(bytes: &[u8]) -> Option<Value> {
    let mut framer = Framer::new();
    framer.accept(bytes).ok()?;
    framer
        .is_between_replies()
        .then(|| redis::parse_redis_value(bytes).ok())?
}

/// Parses `bytes` as the reply to each kind of request in turn.
///
/// # Panics
///
/// If a result does not fit its request.
pub fn replies(bytes: &[u8]) {
    let Some(value) = value(bytes) else {
        return;
    };
    for op in ops() {
        for scripts in [Scripts::Fenced, Scripts::Plain] {
            if let Ok(reply) = reply::read(&op, value.clone(), scripts) {
                fits(&op, &reply, scripts);
            }
        }
    }
    let acquire = acquire();
    let batch = [&acquire, &acquire, &acquire];
    let replies = reply::read_all(&batch, value.clone(), Scripts::Fenced);
    assert_eq!(replies.len(), batch.len());
    replies
        .into_iter()
        .flatten()
        .for_each(|reply| fits(&acquire, &reply, Scripts::Fenced));
    let _ = reply::may_concern_one_key(&value);
    let _ = answer::read("lock:k", &value);
    let _ = answer::scanned(Some(value.clone()));
    let _ = Redirect::read(&value);
    let _ = sentinel::read(vec![value.clone(), value.clone(), value.clone()]);
    if let Some(info) = Info::read(Some(&value)) {
        let _ = info.role();
    }
    if let Value::Push { data, .. } = value {
        let _ = reply::message(&PushInfo {
            kind: PushKind::Message,
            data,
        });
    }
}

fn acquire() -> Op {
    take(TakeKind::Lock { reserved_fences: 7 })
}

fn take(kind: TakeKind) -> Op {
    Op::Take(Take {
        queue: true,
        kind,
        ..Take::lock(key(), Token::fixed(1), Duration::from_secs(1), "")
    })
}

fn key() -> FullKey {
    FullKey::from("lock:k")
}

fn ops() -> Vec<Op> {
    takes().into_iter().chain(rest()).collect()
}

/// Returns the requests that take a lock.
fn takes() -> Vec<Op> {
    let (token, ttl, function) = (Token::fixed(1), Duration::from_secs(1), "");
    vec![
        acquire(),
        Op::TakeAll {
            keys: vec![(key(), token); 2],
            ttl,
            function,
        },
        take(TakeKind::Share { limit: 3 }),
        take(TakeKind::Recall),
        Op::Adopt {
            key: key(),
            from: token,
            token,
            ttl,
            function,
        },
    ]
}

fn rest() -> Vec<Op> {
    let (token, ttl) = (Token::fixed(1), Duration::from_secs(1));
    let renewal = Renewal {
        key: key(),
        token,
        ttl,
    };
    let kept = Kept {
        fingerprint: None,
        json: "1".into(),
    };
    let record = Record {
        function: "shop::create",
        kept: kept.into(),
        stays: ttl,
    };
    let give = |kind| Op::Give(Give::now(key(), token, kind));
    vec![
        Op::Keep {
            renewals: vec![renewal.clone(), renewal.clone()],
            shares: false,
        },
        Op::Keep {
            renewals: vec![renewal],
            shares: true,
        },
        give(GiveKind::Lock),
        give(GiveKind::Share),
        Op::Leave { key: key() },
        give(GiveKind::Record(record.into())),
        Op::Forget { key: key() },
    ]
}

fn fits(op: &Op, reply: &Reply, scripts: Scripts) {
    let fits = match (op, reply) {
        (Op::Take(take), Reply::Acquired { fence, .. }) => {
            let is_plain = matches!(take.kind, TakeKind::Lock { .. }) && scripts == Scripts::Plain;
            fence.is_some() || is_plain
        }
        (Op::Adopt { .. }, Reply::Acquired { fence, .. }) => fence.is_some(),
        (Op::Take(take), Reply::Recalled(_)) => take.kind == TakeKind::Recall,
        (Op::Take(_) | Op::Adopt { .. }, Reply::Held { .. })
        | (Op::Adopt { .. }, Reply::Gone)
        | (Op::Give(_), Reply::Released { .. })
        | (Op::Leave { .. }, Reply::Left)
        | (Op::Forget { .. }, Reply::Forgotten(_)) => true,
        (Op::TakeAll { keys, .. }, Reply::AcquiredAll(all)) => {
            let has_fence = |one: &Reply| matches!(one, Reply::Acquired { fence: Some(_), .. });
            all.len() == keys.len() && all.iter().all(has_fence)
        }
        (Op::TakeAll { keys, .. }, Reply::HeldAmong { at, .. }) => *at < keys.len(),
        (Op::Keep { renewals, .. }, Reply::Renewed(kept)) => kept.len() == renewals.len(),
        (Op::Keep { renewals, .. }, Reply::RenewedInPart(kept)) => {
            kept.len() == renewals.len() && kept.contains(&None)
        }
        _ => false,
    };
    assert!(fits, "{reply:?} answers {op:?}");
}

/// Checks that `uncovered` counts the slots without a master, and that `one_slot_each` returns each
/// master once, with one of its slots.
///
/// # Panics
///
/// If a property does not hold.
pub fn slots(bytes: &[u8]) {
    // If the first byte is `*`, the input is a whole answer. Otherwise, slot ranges are built from
    // the other bytes.
    let mut input = Input(bytes);
    let value = match input.byte() {
        b'*' => value(bytes),
        _ => Some(ranges(&mut input)),
    };
    let Some(topology) = value.and_then(|value| topology::Topology::of_slots(&value, "asked"))
    else {
        return;
    };
    let covered = |slot: &u16| {
        topology
            .masters
            .iter()
            .any(|(range, _)| range.contains(slot))
    };
    let covered = u16::try_from((0..SLOTS).filter(covered).count()).expect("a slot has two bytes");
    assert_eq!(topology.uncovered(), SLOTS - covered);
    let each = topology.one_slot_each();
    for (at, (master, slot)) in each.iter().enumerate() {
        assert!(*slot < SLOTS, "{slot} is no slot");
        let has = |(range, owner): &(std::ops::RangeInclusive<u16>, _)| {
            owner == master && range.contains(slot)
        };
        assert!(
            topology.masters.iter().any(has),
            "{master:?} does not have {slot}"
        );
        assert!(
            each[..at].iter().all(|(other, _)| other != master),
            "{master:?} comes twice"
        );
    }
}

fn ranges(input: &mut Input<'_>) -> Value {
    let mut ranges = Vec::new();
    while !input.0.is_empty() && ranges.len() < 64 {
        let mut number = || i64::from(u16::from_be_bytes([input.byte(), input.byte()]));
        let (first, last) = (number(), number());
        let (host, port) = (input.byte() % 8, i64::from(input.byte() % 4));
        let host = Value::BulkString(vec![b'a' + host; usize::from(host.min(1))]);
        let node = Value::Array(vec![host, Value::Int(port)]);
        ranges.push(Value::Array(vec![
            Value::Int(first),
            Value::Int(last),
            node,
        ]));
    }
    Value::Array(ranges)
}
