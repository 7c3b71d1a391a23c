//! Tests of locks that are taken away by force.

use std::time::Duration;

use super::{HOUR, ONE_TRY, START, asked, core, enter, held, is_granted, releases, taken};
use crate::base::token::Token;
use crate::engine::core::Core;
use crate::engine::core::signal::Signal;
use crate::engine::core::ticket::TicketId;
use crate::fence::Fence;
use crate::store::Reply;

const OTHER: u64 = 0xdead;

/// Creates a core whose ticket 1 holds the key. Also returns the ticket, and the half of its token
/// that identifies its lease in the store's message.
fn holding() -> (Core, TicketId, u64) {
    let mut core = core();
    let id = enter(&mut core, 1, ONE_TRY, START);
    let op = asked(&mut core, START);
    core.reply(op, taken(1), START);
    core.take_signals();
    (core, id, Token::fixed(1).half())
}

fn is_lost(signals: &[Signal], id: TicketId) -> bool {
    *signals == [Signal::TakenAway(id), Signal::Lost(id)]
}

/// The store reports that a held lock was taken away by force. Fails if the holder is not notified
/// exactly once, or if its release does not remove the key.
#[test]
fn a_revoked_holder_is_notified_and_releases_the_key() {
    let (mut core, id, half) = holding();
    core.revoked(&"key".into(), half, START);
    let signals = core.take_signals();
    assert!(is_lost(&signals, id), "{signals:?}");
    core.revoked(&"key".into(), half, START);
    assert!(core.take_signals().is_empty(), "it is notified once");
    assert_eq!(releases(&core.take_requests(START)), 0, "the body runs on");
    core.release(id, None, START);
    assert_eq!(releases(&core.take_requests(START)), 1);
}

/// The store reports that a lock was taken away by force. Fails if the report ends a lease with
/// another token or of another key, or affects a lock after its release.
#[test]
fn a_revocation_does_not_affect_other_leases() {
    let (mut core, id, half) = holding();
    core.revoked(&"key".into(), OTHER, START);
    core.revoked(&"other".into(), half, START);
    assert!(core.take_signals().is_empty());
    core.release(id, None, START);
    core.take_requests(START);
    core.revoked(&"key".into(), half, START);
    assert!(core.take_signals().is_empty(), "it was given back before");
}

/// Fails if a call keeps a revoked lock that it got by a hand-over. After a hand-over, the key
/// still has the first holder's token, and the store's message names that token.
#[test]
fn a_revoked_lock_is_lost_after_a_hand_over() {
    let mut core = core();
    let first = enter(&mut core, 1, HOUR, START);
    let second = enter(&mut core, 2, HOUR, START);
    let op = asked(&mut core, START);
    let reserved = Ok(Reply::Acquired {
        fence: Some(Fence::new(1)),
        reserved_fences: 5,
        wanted: Some(false),
    });
    core.reply(op, reserved, START);
    let soon = START + Duration::from_millis(1);
    core.release(first, None, soon);
    assert!(
        core.take_signals()
            .iter()
            .any(|signal| is_granted(signal, second))
    );
    core.revoked(&"key".into(), Token::fixed(1).half(), soon);
    let signals = core.take_signals();
    assert!(is_lost(&signals, second), "{signals:?}");
}

/// Reads the message that a lock was taken away before the answer to its acquire. Fails if the
/// lease does not end with its grant, or if the release does not remove the key.
#[test]
fn a_lock_revoked_before_its_grant_is_lost() {
    let mut core = core();
    let id = enter(&mut core, 1, ONE_TRY, START);
    let op = asked(&mut core, START);
    core.revoked(&"key".into(), OTHER, START);
    core.revoked(&"key".into(), Token::fixed(1).half(), START);
    assert!(core.take_signals().is_empty());
    core.reply(op, taken(1), START);
    let signals = core.take_signals();
    let (granted, lost) = signals.split_at(1);
    assert!(
        is_granted(&granted[0], id) && is_lost(lost, id),
        "{signals:?}"
    );
    core.release(id, None, START);
    assert_eq!(releases(&core.take_requests(START)), 1);
}

/// A lock is taken away before the answer to its acquire, and the call takes it again later. Fails
/// if the new lease ends, too.
#[test]
fn a_later_grant_is_not_revoked() {
    let mut core = core();
    let id = enter(&mut core, 1, HOUR, START);
    let op = asked(&mut core, START);
    core.revoked(&"key".into(), Token::fixed(1).half(), START);
    core.reply(op, held(Duration::from_millis(1)), START);
    let later = START + Duration::from_secs(1);
    core.tick(later);
    let again = asked(&mut core, later);
    core.reply(again, taken(2), later);
    let signals = core.take_signals();
    assert!(
        matches!(&signals[..], [granted] if is_granted(granted, id)),
        "{signals:?}"
    );
}
