//! Which of two sessions gets a request.
//!
//! Each session has half of the keys, so all requests for a key reach the server in their order.
//! Keys that are asked for together may be of both halves. Then all of them stay in one session
//! until the request has been answered.
//!
//! Halves that are fixed make for large calls: the callers that one call has served ask again
//! together. Where each request went to the session with less to do, calls had half as many keys,
//! and 64 callers a fifth fewer locks.

use super::calls::for_each_key;
use crate::base::full_key::{FullKey, KeyMap};
use crate::base::seeded::seeded;
use crate::store::Op;

/// How many requests are under way in a session for each key. Renewals do not count: it makes no
/// difference in what order they and the other requests for their keys reach the server.
#[derive(Debug, Default)]
pub(super) struct OpenKeys(KeyMap<u32>);

/// A session, as the choice between two sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load<'a> {
    pub(super) open_keys: &'a OpenKeys,
    pub(super) is_away: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Session(usize),
    /// Both sessions have requests under way for keys that are asked for together. Neither can
    /// take all of these in their order, so they are to be asked for individually.
    Apart,
}

impl OpenKeys {
    pub(super) fn add(&mut self, op: &Op) {
        for_each_ordered(op, |key| {
            *self.0.entry(key.clone()).or_default() += 1;
        });
    }

    pub(super) fn remove(&mut self, op: &Op) {
        for_each_ordered(op, |key| {
            if let Some(count) = self.0.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    self.0.remove(key);
                }
            }
        });
    }

    fn contains(&self, key: &FullKey) -> bool {
        self.0.contains_key(key)
    }
}

/// The keys of a request whose place among the requests for them matters.
fn for_each_ordered(op: &Op, act: impl FnMut(&FullKey)) {
    match op {
        Op::Renew(_) | Op::Stay(_) => {}
        op => for_each_key(op, act),
    }
}

pub(super) fn route(op: &Op, sessions: [Load<'_>; 2]) -> Route {
    let mut open = [false; 2];
    for_each_ordered(op, |key| {
        for (open, session) in open.iter_mut().zip(sessions) {
            *open |= session.open_keys.contains(key);
        }
    });
    match open {
        _ if seeded!(SessionsMixed) => Route::Session(usize::from(open[0])),
        [true, true] => Route::Apart,
        [true, false] => Route::Session(0),
        [false, true] => Route::Session(1),
        [false, false] => {
            let mut half = 0;
            for_each_key(op, |key| half = key.half());
            // While one session has no connection, the other has all keys.
            let elsewhere = sessions[half].is_away && !sessions[1 - half].is_away;
            Route::Session(if elsewhere { 1 - half } else { half })
        }
    }
}
