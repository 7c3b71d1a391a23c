//! Which of two sessions gets a request.
//!
//! Each session has half of the keys, so the requests for a key reach the server in their order.
//! Keys that are asked for together may be of both halves. Then all of them stay in one session
//! until the request has been answered.
//!
//! Halves that are fixed make large calls, because the callers that one call has served ask again
//! together. To send each request to the session with less to do made smaller calls, and fewer
//! locks a second.

use super::calls::for_each_key;
use crate::base::full_key::{FullKey, KeyMap};
use crate::base::seeded::seeded;
use crate::store::{Op, Renewal};

/// How many requests are under way in a session for each key.
#[derive(Debug, Default)]
pub(super) struct OpenKeys(KeyMap<u32>);

/// A session, as the choice between two sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load<'a> {
    pub(super) open_keys: &'a OpenKeys,
    /// Whether it can be expected to work.
    pub(super) is_fit: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    Session(usize),
    /// Both sessions, as they have renewals each. Here is the session of every renewal.
    Both(Vec<usize>),
    /// Neither: both sessions have requests under way for keys that are asked for together. These
    /// are to be asked for individually.
    Apart,
}

impl OpenKeys {
    pub(super) fn add(&mut self, op: &Op) {
        for_each_key(op, |key| {
            *self.0.entry(key.clone()).or_default() += 1;
        });
    }

    pub(super) fn remove(&mut self, op: &Op) {
        for_each_key(op, |key| {
            if let Some(count) = self.0.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    self.0.remove(key);
                }
            }
        });
    }

    pub(super) fn contains(&self, key: &FullKey) -> bool {
        self.0.contains_key(key)
    }
}

pub(super) fn route(op: &Op, sessions: [Load<'_>; 2]) -> Route {
    match op {
        Op::Renew(renewals) | Op::Stay(renewals) => of_renewals(renewals, sessions),
        Op::AcquireAll { keys, .. } => {
            let open_in = |at: usize| {
                let open = sessions[at].open_keys;
                keys.iter().any(|(key, _)| open.contains(key))
            };
            match [open_in(0), open_in(1)] {
                [true, true] => Route::Apart,
                [true, false] => Route::Session(0),
                [false, true] => Route::Session(1),
                [false, false] => of_any_key(op, sessions),
            }
        }
        _ => of_any_key(op, sessions),
    }
}

fn of_any_key(op: &Op, sessions: [Load<'_>; 2]) -> Route {
    let mut home = 0;
    for_each_key(op, |key| home = home_of(key, sessions));
    Route::Session(home)
}

fn of_renewals(renewals: &[Renewal], sessions: [Load<'_>; 2]) -> Route {
    let homes = renewals
        .iter()
        .map(|renewal| home_of(&renewal.key, sessions));
    let homes: Vec<_> = homes.collect();
    match homes.first() {
        Some(first) if homes.iter().any(|home| home != first) => Route::Both(homes),
        first => Route::Session(first.copied().unwrap_or(0)),
    }
}

/// The session of a key: the one that has requests under way for it, or else the one that has its
/// half. While only the other one is fit, that has all keys. A request that goes from one session
/// that hangs to another would wait twice.
fn home_of(key: &FullKey, sessions: [Load<'_>; 2]) -> usize {
    let open = sessions.map(|session| session.open_keys.contains(key));
    let half = key.half();
    match open {
        _ if seeded!(SessionsMixed) => usize::from(open[0]),
        [true, _] => 0,
        [_, true] => 1,
        _ if !sessions[half].is_fit && sessions[1 - half].is_fit => 1 - half,
        _ => half,
    }
}
