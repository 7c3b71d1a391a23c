//! A store that does nothing: it grants every request. Benchmarks measure with it what everything
//! else costs.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use crate::fence::Fence;
use crate::store::{LockStore, Op, Reply, Request, StoreEvent};

/// Grants every lock to every call.
#[derive(Debug, Default)]
pub(crate) struct NoStore {
    events: VecDeque<StoreEvent>,
}

const GRANTED: Reply = Reply::Acquired {
    fence: Some(Fence::new(1)),
    reserved_fences: 0,
    wanted: None,
};

fn answer(op: &Op) -> Reply {
    match op {
        Op::Acquire { .. } | Op::Join { .. } | Op::Recall { .. } | Op::Adopt { .. } => GRANTED,
        Op::AcquireAll { keys, .. } => Reply::AcquiredAll(vec![GRANTED; keys.len()]),
        Op::Renew(renewals) | Op::Stay(renewals) => Reply::Renewed(vec![true; renewals.len()]),
        Op::Release { .. } | Op::Part { .. } | Op::Record { .. } => Reply::Released {
            found: true,
            ordered: true,
        },
        Op::Leave { .. } => Reply::Left,
        Op::Forget { .. } => Reply::Forgotten(false),
    }
}

impl LockStore for NoStore {
    fn submit(&mut self, batch: &mut Vec<Request>) {
        for request in batch.drain(..) {
            let answer = Ok(answer(&request.op));
            self.events.push_back(StoreEvent::Reply(request.id, answer));
        }
    }

    fn poll_event(&mut self, _: &mut Context<'_>) -> Poll<StoreEvent> {
        self.events.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}
