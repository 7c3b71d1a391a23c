//! Tests of sessions and waiting nodes (places), on a fake server and with a paused clock.

use std::sync::Arc;
use std::time::Duration;

use super::fake_server_tests::{Client, FENCE, LONG, PATIENCE, Server, TTL};
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::store::{CLAIM, LockStore as _, Op, OpId, Renewal, Reply, StoreEvent};

const HOLDER: Token = Token::fixed(1);
const CALL: Token = Token::fixed(3);

/// A server on which [`HOLDER`] has the lock, and a client that waits for it with [`CALL`].
async fn one_waits() -> (Arc<Server>, Client) {
    let server = Arc::<Server>::default();
    server.change(|nodes| nodes.push_back(HOLDER));
    let mut client = Client::of(&server);
    let queued = client.asks(CALL).await;
    assert!(
        matches!(queued, Ok(Reply::Held { queued: true, .. })),
        "{queued:?}"
    );
    (server, client)
}

/// Fails if a call sends a request for a lock that the server has already given to this process.
#[tokio::test(start_paused = true)]
async fn a_granted_turn_is_used_without_a_request() {
    let (server, mut client) = one_waits().await;
    server.leaves(HOLDER);
    client.is_notified_of_its_turn().await;
    server.lose();
    let taken = client.asks(CALL).await;
    let fence = Some(FENCE);
    assert!(
        matches!(taken, Ok(Reply::Acquired { fence: reported, .. }) if reported == fence),
        "{taken:?}"
    );
}

/// Fails if the end of a session is reported only after the next heartbeat. Until that heartbeat,
/// another process could already have the lock.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_is_reported_at_once() {
    let server = Arc::<Server>::default();
    let mut client = Client::of(&server);
    let taken = client.asks(Token::fixed(3)).await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
    // After this pause, the session listens for its end.
    tokio::time::sleep(CLAIM).await;
    server.ends();
    let reported = tokio::time::timeout(TTL / 2, client.event()).await;
    assert!(matches!(reported, Ok(StoreEvent::Lost(_))), "{reported:?}");
}

/// Fails if a call gets the lock with a node that another process is taking away by force. That
/// process would then remove the node without notifying the call.
#[tokio::test(start_paused = true)]
async fn a_revoked_place_is_not_granted() {
    let (server, mut client) = one_waits().await;
    let place = server.nodes()[1];
    // After this pause, the session listens for revocations.
    tokio::time::sleep(CLAIM).await;
    server.leaves(HOLDER);
    client.is_notified_of_its_turn().await;
    *server.lost_removals.lock().unwrap() = 1;
    server.revoke(None, place);
    client.is_notified_of_its_turn().await;
    let asked = client.asks(CALL).await;
    assert!(matches!(asked, Ok(Reply::Held { .. })), "{asked:?}");
    client.is_notified_of_its_turn().await;
    let taken = client.asks(CALL).await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
    assert!(!server.nodes().contains(&place), "it was removed");
}

/// A call releases its node, which has become the first. The server removes the node, but the
/// answer is lost. Fails if the next call then gets the lock with the removed node.
#[tokio::test(start_paused = true)]
async fn a_released_place_is_not_granted() {
    let (server, mut client) = one_waits().await;
    client.asks_in_vain(&server, CALL, HOLDER).await;
    *server.unanswered.lock().unwrap() = true;
    client.begins_to_release(CALL, None);
    client.begins_to_ask(Token::fixed(4));
    let asked = loop {
        match client.event().await {
            StoreEvent::Reply(OpId(replied), reply) if replied == client.last => break reply,
            _ => {}
        }
    };
    assert!(matches!(asked, Ok(Reply::Acquired { .. })), "{asked:?}");
    assert_eq!(server.nodes().len(), 1, "it was granted without a node");
}

/// Holders in two sessions have nodes with the same name. Fails if the revocation of a node of one
/// session reaches a holder of the other session.
#[tokio::test(start_paused = true)]
async fn a_revocation_applies_to_a_node_of_one_session() {
    const BEFORE: u128 = 300;
    let server = Arc::<Server>::default();
    let name = Token::fixed(1);
    *server.same_name.lock().unwrap() = Some(name);
    let mut client = Client::of(&server);
    for before in 0..BEFORE {
        let taken = client.asks(Token::fixed(100 + before)).await;
        assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
        // The node is gone on the server, but the holder has not released its lock.
        server.leaves(name);
    }
    let holder = Token::fixed(2);
    client.begins_to_ask_for(holder, TTL * 10);
    let taken = client.answer().await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
    // After this pause, the session listens for revocations.
    tokio::time::sleep(CLAIM).await;
    server.revoke(Some(2), name);
    let reported = tokio::time::timeout(TTL / 2, client.event()).await;
    let Ok(StoreEvent::Revoked { lease, .. }) = reported else {
        panic!("{reported:?}");
    };
    assert_eq!(lease, holder.half(), "another holder was notified");
}

/// A place (the waiting node of a process) has become the first. The answer to its call was lost,
/// and the call did not repeat its request within `CLAIM`, so the place was given up. Then the call
/// requests the lock again, with a new node. Fails if this node is not used when it becomes the
/// first.
#[tokio::test(start_paused = true)]
async fn a_recreated_place_gets_its_turn() {
    let (server, mut client) = one_waits().await;
    let behind = Token::fixed(2);
    server.change(|nodes| nodes.push_back(behind));
    client.asks_in_vain(&server, CALL, HOLDER).await;
    tokio::time::sleep(CLAIM * 2).await;
    assert_eq!(server.nodes(), [behind], "its place was given up");
    let queued = client.asks(CALL).await;
    assert!(
        matches!(queued, Ok(Reply::Held { queued: true, .. })),
        "{queued:?}"
    );
    server.leaves(behind);
    client.is_notified_of_its_turn().await;
    let taken = client.asks(CALL).await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
}

/// A place was given up, but the removal of its node is lost and will be retried. Fails if a call
/// gets the lock with this node, because the retried removal would then take the lock away.
#[tokio::test(start_paused = true)]
async fn an_abandoned_place_is_not_granted() {
    let (server, mut client) = one_waits().await;
    let place = server.nodes()[1];
    *server.lost_removals.lock().unwrap() = 3;
    client.asks_in_vain(&server, CALL, HOLDER).await;
    tokio::time::sleep(CLAIM).await;
    assert_eq!(server.nodes(), [place], "its removal is lost");
    let mut taken = client.asks(CALL).await;
    while !matches!(taken, Ok(Reply::Acquired { .. })) {
        client.is_notified_of_its_turn().await;
        taken = client.asks(CALL).await;
    }
    let held = server.nodes();
    tokio::time::sleep(TTL / 2).await;
    assert_eq!(server.nodes(), held, "the lock was taken away");
}

/// The server keeps a released lock, but the answer is lost. Fails if the node is removed before
/// the end of the cooldown, at the end of its lease, or is never removed.
#[tokio::test(start_paused = true)]
async fn a_kept_lock_with_a_lost_answer_stays() {
    const KEEP: Duration = Duration::from_secs(90);
    let server = Arc::<Server>::default();
    let mut client = Client::of(&server);
    let taken = client.asks(CALL).await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
    *server.unanswered.lock().unwrap() = true;
    client.begins_to_release(CALL, Some(KEEP));
    assert!(client.answer().await.is_err(), "the answer was lost");
    *server.unanswered.lock().unwrap() = false;
    let held = server.nodes();
    tokio::time::sleep(KEEP.saturating_sub(PATIENCE * 2)).await;
    assert_eq!(server.nodes(), held, "it was removed too early");
    tokio::time::sleep(PATIENCE * 5).await;
    assert!(server.nodes().is_empty(), "it is kept for too long");
}

/// Fails if a node that a release has moved to another lease is removed by a renewal under way.
#[tokio::test(start_paused = true)]
async fn a_renewal_removes_no_kept_node() {
    let server = Arc::<Server>::default();
    let mut client = Client::of(&server);
    let taken = client.asks(CALL).await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
    *server.unanswered.lock().unwrap() = true;
    client.begins_to_release(CALL, Some(TTL));
    assert!(client.answer().await.is_err(), "the answer was lost");
    *server.moved.lock().unwrap() = true;
    client.submit(Op::Keep {
        renewals: vec![Renewal {
            key: FullKey::from("k"),
            token: CALL,
            ttl: TTL,
        }],
        shares: false,
    });
    let renewed = client.answer().await;
    assert!(
        matches!(&renewed, Ok(Reply::Renewed(kept)) if kept[..] == [false]),
        "{renewed:?}"
    );
    tokio::time::sleep(PATIENCE * 5).await;
    assert_eq!(server.nodes().len(), 1, "it is not kept");
}

/// No session with a long time-out can be opened, and requests for many keys wait for one. Fails if
/// the release of a lock in another session waits for more than one of these requests.
#[tokio::test(start_paused = true)]
async fn a_release_waits_for_no_queue_of_openings() {
    let server = Arc::<Server>::default();
    let mut client = Client::of(&server);
    let taken = client.asks(CALL).await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
    *server.hangs.lock().unwrap() = true;
    for number in 0..10 {
        client.begins_to_take(&format!("other{number}"), Token::fixed(100 + number), LONG);
    }
    client.begins_to_ask_for(Token::fixed(4), LONG);
    client.begins_to_release(CALL, None);
    let asked = client.last;
    let released = tokio::time::timeout(PATIENCE * 2, async {
        loop {
            if let StoreEvent::Reply(OpId(replied), reply) = client.event().await
                && replied == asked
            {
                return reply;
            }
        }
    });
    let released = released.await.expect("after one opening");
    assert!(
        matches!(released, Ok(Reply::Released { .. })),
        "{released:?}"
    );
}

/// An opening hangs, and another request waits for it. Fails if that request then has too little
/// time to open a session itself, although the server answers again.
#[tokio::test(start_paused = true)]
async fn an_opening_after_a_failed_one_can_succeed() {
    const SOON: Duration = Duration::from_millis(20);
    let server = Arc::<Server>::default();
    let mut client = Client::of(&server);
    *server.hangs.lock().unwrap() = true;
    client.begins_to_take("other", Token::fixed(100), LONG);
    tokio::time::sleep(SOON).await;
    client.begins_to_ask_for(CALL, LONG);
    tokio::time::sleep(SOON).await;
    *server.hangs.lock().unwrap() = false;
    *server.opens_in.lock().unwrap() = 5 * SOON;
    let failed = client.event().await;
    assert!(
        matches!(failed, StoreEvent::Reply(OpId(1), Err(_))),
        "{failed:?}"
    );
    let taken = client.answer().await;
    assert!(matches!(taken, Ok(Reply::Acquired { .. })), "{taken:?}");
}

/// A request finds no server, and the next attempts get no result. Then the server answers. Fails
/// if the store counts as away until its next request.
#[tokio::test(start_paused = true)]
async fn a_lost_server_is_reached_again_without_a_request() {
    for attempts_in_vain in [0, 3, 20] {
        let server = Arc::<Server>::default();
        *server.attempts_in_vain.lock().unwrap() = attempts_in_vain;
        let mut client = Client::of(&server);
        server.outage.lost();
        assert!(client.store.is_away());
        let event = tokio::time::timeout(TTL, client.event()).await;
        assert!(matches!(event, Ok(StoreEvent::Connected)), "{event:?}");
        assert!(!client.store.is_away(), "it is reached again");
    }
}
