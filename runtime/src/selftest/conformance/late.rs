//! Tests in which the thread that polls the store is late.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use super::client::{Client, acquire, scene};
use super::promises::TTL;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::store::{Reply, Request, StoreEvent};

/// Time-out of the test's request. The request times out while the thread sleeps for `LATENESS`.
const PATIENCE: Duration = Duration::from_millis(600);
const LATENESS: Duration = Duration::from_millis(1_200);

/// Checks an answer that arrives before its request times out, but is read only afterwards: it must
/// count. In between, the thread sleeps, so neither the store nor the runtime polls the sockets.
pub(super) async fn an_answer_that_has_come_counts(one: &mut Client) {
    let (key, mine) = acquire_late(one, "late").await;
    assert!(one.release(&key, mine).await);
}

/// Like `an_answer_that_has_come_counts`, but the sockets are left to listeners, and no listener
/// reads them in time either.
pub(super) async fn an_answer_that_no_listener_received_counts(one: &mut Client) {
    one.leave_to_listeners(true);
    let (key, mine) = acquire_late(one, "late-listener").await;
    one.leave_to_listeners(false);
    assert!(one.release(&key, mine).await);
}

async fn acquire_late(one: &mut Client, name: &str) -> (FullKey, Token) {
    let (key, mine, _) = scene(name);
    let id = one.next_id();
    let request = Request {
        id,
        op: acquire(&key, mine, TTL),
        patience: PATIENCE,
    };
    one.store.submit(&mut vec![request]);
    let mut was_late = false;
    let answered = poll_fn(|cx| {
        loop {
            match one.store.poll_event(cx) {
                Poll::Ready(StoreEvent::Reply(_, Ok(reply))) => return Poll::Ready(Some(reply)),
                Poll::Ready(StoreEvent::Reply(_, Err(failure))) => panic!("{}", failure.error),
                Poll::Ready(_) => continue,
                // The runtime polls its sockets only while this future does not run. So this future
                // ends, and the reply is awaited below.
                Poll::Pending if was_late => return Poll::Ready(None),
                Poll::Pending => std::thread::sleep(LATENESS),
            }
            was_late = true;
        }
    });
    let reply = match answered.await {
        Some(reply) => reply,
        None => one.reply(id).await,
    };
    assert!(matches!(reply, Reply::Acquired { .. }), "{reply:?}");
    (key, mine)
}
