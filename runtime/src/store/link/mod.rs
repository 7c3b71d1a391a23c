//! Code shared by stores with a single connection: the replacement of this connection, and the
//! setting of a store's timer.

use std::future::Future as _;
use std::pin::Pin;
use std::task::Context;

use tokio::time::{Instant, Sleep};

pub(crate) mod supervisor;

/// Polls `timer`, and makes sure that it elapses at `next` at the latest. Returns true if it has
/// elapsed.
///
/// Keeps an earlier deadline of the timer, because a reset costs more than one needless wake-up.
pub(crate) fn poll_by(timer: &mut Pin<Box<Sleep>>, next: Instant, cx: &mut Context<'_>) -> bool {
    if next < timer.deadline() || timer.is_elapsed() {
        timer.as_mut().reset(next);
    }
    timer.as_mut().poll(cx).is_ready()
}
