//! Tests of the numbers of confirmed and unconfirmed releases, which operators see.

use super::*;

/// Creates a core with a held lock. If `waits`, a second call waits for it.
fn holding(waits: bool) -> Core {
    let mut core = core();
    enter(&mut core, 1, HOUR, START);
    if waits {
        enter(&mut core, 2, HOUR, START);
    }
    let op = asked(&mut core, START);
    let granted = Reply::Acquired {
        fence: Some(Fence::new(1)),
        reserved_fences: 1,
        wanted: Some(false),
    };
    core.reply(op, Ok(granted), START);
    core
}

/// Returns the numbers of confirmed and unconfirmed releases since the last call.
fn over(core: &mut Core) -> (usize, usize) {
    let releases = core.take_releases();
    (releases.confirmed(), releases.unconfirmed())
}

/// Lets the store answer the one removal sent now.
fn removed(core: &mut Core, found: bool) {
    let requests = core.take_requests(START);
    assert_eq!(releases(&requests), 1);
    let ordered = true;
    core.reply(
        requests[0].id,
        Ok(Reply::Released { found, ordered }),
        START,
    );
}

/// Fails if a release is counted before its end, twice or not at all.
#[test]
fn a_release_is_counted_at_its_end() {
    for found in [true, false] {
        let mut core = holding(false);
        core.release(TicketId(1), None, START);
        assert_eq!(over(&mut core), (0, 0), "the store has not answered");
        removed(&mut core, found);
        let expected = if found { (1, 0) } else { (0, 1) };
        assert_eq!(over(&mut core), expected);
        assert_eq!(over(&mut core), (0, 0), "it was counted");
    }
}

/// Fails if a lock that expires before the store answers is not counted, or counts as a confirmed
/// release.
#[test]
fn an_expired_lock_is_not_confirmed_as_released() {
    let mut core = holding(false);
    core.abandon(TicketId(1), START);
    core.tick(START + TTL);
    assert!(core.is_idle());
    assert_eq!(over(&mut core), (0, 1));
}

/// Fails if a lock handed over to the next call of this process is not counted as released.
#[test]
fn a_hand_over_is_a_release() {
    let mut core = holding(true);
    core.release(TicketId(1), None, START);
    assert_eq!(over(&mut core), (1, 0));
}

/// Fails if the removal of an abandoned acquire counts as the release of a lock.
#[test]
fn removing_an_abandoned_acquire_is_not_a_release() {
    let mut core = core();
    let id = enter(&mut core, 1, ONE_TRY, START);
    asked(&mut core, START);
    core.abandon(id, START);
    removed(&mut core, true);
    assert!(core.is_idle());
    assert_eq!(over(&mut core), (0, 0));
}
