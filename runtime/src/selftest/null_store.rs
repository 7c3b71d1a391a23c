//! A store that does nothing and grants every request. Benchmarks use it to measure the cost of
//! everything else.

use std::collections::VecDeque;
use std::fmt;
use std::task::{Context, Poll};

use crate::check_report::CheckReport;
use crate::error::LockError;
use crate::fence::Fence;
use crate::store::backend::{Backend, Checking};
use crate::store::options::Options;
use crate::store::source::{Source, no_server};
use crate::store::{Connecting, LockStore, Op, Reply, Request, StoreEvent};

/// The address of a store that does nothing. No URL names it.
pub(crate) struct Nothing;

impl Backend for Nothing {
    fn has_other_clients(&self) -> bool {
        true
    }

    fn connect(&self, _options: Options) -> Connecting {
        Box::pin(async { Ok(Box::new(NoStore::default()) as _) })
    }

    fn check(&self, _options: Options) -> Checking {
        let report = CheckReport::new(self.to_string(), Vec::new());
        Box::pin(async { Ok(report) })
    }

    fn source(&self, _options: Options) -> Result<Box<dyn Source>, LockError> {
        Err(no_server())
    }
}

impl fmt::Display for Nothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing")
    }
}

/// A store that grants every lock to every call.
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
        Op::Take(_) | Op::Adopt { .. } => GRANTED,
        Op::TakeAll { keys, .. } => Reply::AcquiredAll(vec![GRANTED; keys.len()]),
        Op::Keep { renewals, .. } => Reply::Renewed(vec![true; renewals.len()]),
        Op::Give(_) => Reply::Released {
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
