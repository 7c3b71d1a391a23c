//! Checks of the parsers for locks' values, messages, kept results and handovers.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use redis::{PushInfo, PushKind, Value};

use super::Input;
use crate::base::token::Token;
use crate::inspect::info::LockInfo;
use crate::lock::api::handover::Handover;
use crate::owner::Owner;
use crate::pool::LockPool;
use crate::store::StoreEvent;
use crate::store::kept::{Fingerprint, Kept};
use crate::store::postgres::turns;
use crate::store::redis::commands::reply;
use crate::store::redis::look::value::Written;

/// Checks that the value of a lock is read as it was written, and that any value can be shown.
///
/// # Panics
///
/// If a property does not hold.
pub fn values(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (number, reserve, millis) = (input.number(), input.number(), input.number());
    let token = Token::fixed(u128::from(input.number()) + 1);
    let Ok(text) = str::from_utf8(input.0) else {
        return;
    };
    shown(&Written::read(text), millis);
    if let Some(owner) = Owner::read(text) {
        let Owner {
            host,
            pid,
            function,
        } = &owner;
        assert_eq!(
            Owner::read(&format!("{host} {pid} {function}")),
            Some(owner)
        );
    }
    let hex = token.hex();
    let value = format!("{hex}:{number}:{reserve}:{hex}:{text}");
    let Written::Held(record) = Written::read(&value) else {
        panic!("{value} is a lock's");
    };
    assert_eq!((record.number, record.owner), (number, text));
    shown(&Written::Held(record), millis);
    let revoked = format!("r{value}");
    assert_eq!(Written::read(&revoked), Written::Revoked(record));
}

fn shown(written: &Written<'_>, millis: u64) {
    let left = Duration::from_millis(millis >> 1);
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(millis >> 8);
    let mut info = LockInfo::free("k");
    written.show(&mut info, Some(left), now);
    serde_json::to_string(&info).expect("it can be shown as JSON");
}

/// Checks that the parsers for Redis and for PostgreSQL read the same event from a message. The
/// event must contain all information of the message.
///
/// # Panics
///
/// If a property does not hold.
pub fn messages(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let data = vec![
        Value::BulkString(b"channel".to_vec()),
        Value::BulkString(text.into()),
    ];
    let push = PushInfo {
        kind: PushKind::Message,
        data,
    };
    let written = |event: Option<StoreEvent>| match event {
        Some(StoreEvent::Turn(key)) => Some(format!("t{key}")),
        Some(StoreEvent::Wanted(key)) => Some(format!("w{key}")),
        Some(StoreEvent::Revoked { key, lease }) => Some(format!("r{lease:016x}{key}")),
        Some(other) => panic!("{other:?} of {text}"),
        None => None,
    };
    let (one, other) = (
        written(turns::message(text)),
        written(reply::message(&push)),
    );
    assert_eq!(one, other, "{text}");
    let is_same = one.is_none_or(|one| one.eq_ignore_ascii_case(text));
    assert!(is_same, "{text} is not written so");
}

/// Checks that a kept result is read as it was written.
///
/// # Panics
///
/// If a property does not hold.
pub fn results(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    if let Some(kept) = Kept::parse(text) {
        assert!(kept.to_text().eq_ignore_ascii_case(text), "{text}");
    }
    let print: [u8; 32] = std::array::from_fn(|at| bytes.get(at).copied().unwrap_or_default());
    for fingerprint in [None, Some(Fingerprint(print))] {
        let kept = Kept {
            fingerprint,
            json: text.into(),
        };
        assert_eq!(Kept::parse(&kept.to_text()), Some(kept));
    }
}

/// Checks that a handover is read as it was written, and that its `Debug` output shows no token.
/// Adopting it must fail, because nobody holds its lock.
///
/// # Panics
///
/// If a property does not hold.
pub fn handovers(bytes: &[u8]) {
    static RUNTIME: LazyLock<(tokio::runtime::Runtime, LockPool)> = LazyLock::new(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let pool = runtime.block_on(LockPool::builder().url("memory://").namespace("").connect());
        (runtime, pool.expect("memory"))
    });

    let Ok(handover) = serde_json::from_slice::<Handover>(bytes) else {
        return;
    };
    let written = serde_json::to_vec(&handover).expect("a handover is a map");
    let again: Handover = serde_json::from_slice(&written).expect("it is read as it is written");
    assert_eq!(again, handover);
    let token = handover.token.hex();
    let shown = format!("{handover:?}");
    assert!(
        handover.key.contains(&token) || !shown.contains(&token),
        "{shown}"
    );
    let (runtime, pool) = &*RUNTIME;
    let adopted = runtime.block_on(pool.adopt(handover));
    assert!(adopted.is_err(), "a lock that nobody holds was adopted");
}
