//! Inspects the locks of a quorum.

use std::collections::BTreeMap;
use std::time::SystemTime;

use futures_util::future::join_all;
use redis::Value;

use super::address::Address;
use super::failures::no_quorum;
use super::quorum::majority;
use crate::base::full_key::FullKey;
use crate::inspect::info::{Holder, LockInfo, LockState};
use crate::inspect::pattern::Pattern;
use crate::owner::Owner;
use crate::store::options::Options;
use crate::store::redis::commands::failure;
use crate::store::redis::commands::key_names::KeyNames;
use crate::store::redis::look::answer::{List, Seen};
use crate::store::redis::look::value::{self, Written};
use crate::store::redis::look::{Action, RedisSource};
use crate::store::source::{Asking, Page, Place, Source};
use crate::store::{Failure, Retry};

/// Inspects the locks of a quorum, over a connection to each node.
pub(crate) struct RedlockSource {
    names: Vec<String>,
    nodes: Vec<RedisSource>,
}

impl RedlockSource {
    pub(crate) fn new(address: Address, options: &Options) -> Self {
        let names = address.names();
        let nodes = address.nodes.into_iter().map(|master| {
            let names = KeyNames::of(options).without_companions();
            RedisSource::of(master, names, options)
        });
        Self {
            names,
            nodes: nodes.collect(),
        }
    }

    /// Carries out `action` for each of `keys` on all nodes, and joins the nodes' answers about
    /// each lock. Fails unless more than half of the nodes answer.
    async fn do_with(
        &mut self,
        action: Action,
        keys: &[FullKey],
        is_list: bool,
    ) -> Result<Vec<LockInfo>, Failure> {
        // All nodes are asked first. Otherwise a node that must first be connected could carry out
        // the action much later than the others, when the lock already has its next holder.
        let ready = self.nodes.iter_mut().map(|node| async move {
            match (action, keys) {
                (Action::TakeAway, [key]) => Seen::read(&node.look_first(key).await?).map(drop),
                _ => Ok(()),
            }
        });
        let ready = join_all(ready).await;
        let asking = self.nodes.iter_mut().zip(ready);
        let asking = asking.map(|(node, ready)| async move {
            ready?;
            let answers = node.answers(action, keys).await?;
            match (action, answers.first()) {
                (Action::TakeAway, Some(Value::ServerError(error))) => {
                    Err(failure::server_error(error.code(), error.details()))
                }
                _ => Ok(answers),
            }
        });
        let mut answered = Vec::new();
        let mut failed = Vec::new();
        for (name, answers) in self.names.iter().zip(join_all(asking).await) {
            match answers {
                Ok(answers) => answered.push(answers),
                Err(failure) => failed.push(format!("{name}: {}", failure.text())),
            }
        }
        let count = self.nodes.len();
        if answered.len() < majority(count) {
            let why = format!("; {}", failed.join("; "));
            return Err(no_quorum(failed.len(), count, &why, Retry::Later));
        }
        let list = is_list.then(|| List::of(answered.iter().flatten()));
        let each = keys.iter().enumerate();
        let each = each.map(|(at, key)| {
            let answers = answered.iter().filter_map(|answers| answers.get(at));
            let read = |answer| match &list {
                Some(list) => list.seen(answer),
                None => Seen::read(answer),
            };
            let seen: Result<Vec<_>, _> = answers.map(read).collect();
            Ok(counted(key.name(), count, &seen?))
        });
        each.collect()
    }

    /// Returns a page of locks from one node. `place` has the number of the node and the cursor in
    /// the scan of its keys. Omits a lock that a node with a lower number also has, because that
    /// node's pages list the lock.
    async fn some(&mut self, pattern: &Pattern, place: &Place) -> Result<Page, Failure> {
        let (number, cursor) = place.0.split_once(' ').unwrap_or(("0", ""));
        let number: usize = number.parse().unwrap_or_default();
        let Some(node) = self.nodes.get_mut(number) else {
            return Ok(Page::default());
        };
        // An unreachable node is skipped, because its locks are also on other nodes.
        let scanned = node.scan(pattern, cursor).await;
        let (mut keys, cursor) = match scanned {
            Ok(scanned) => scanned,
            Err(failure) if failure.retry == Retry::Never => return Err(failure),
            Err(_) => (Vec::new(), None),
        };
        let next = match cursor {
            Some(cursor) => Some(format!("{number} {cursor}")),
            None => (number + 1 < self.nodes.len()).then(|| format!("{} ", number + 1)),
        };
        for before in &mut self.nodes[..number] {
            let Ok(answers) = before.answers(Action::Inspect, &keys).await else {
                continue;
            };
            let mut answers = answers.iter();
            keys.retain(|_| !answers.next().is_some_and(has_key));
        }
        let mut locks = if keys.is_empty() {
            Vec::new()
        } else {
            self.do_with(Action::Inspect, &keys, true).await?
        };
        locks.retain(|lock| !lock.holders.is_empty() || lock.is_taken());
        Ok(Page {
            locks,
            next: next.map(Place),
        })
    }

    async fn one(&mut self, action: Action, key: &FullKey) -> Result<LockInfo, Failure> {
        let keys = std::slice::from_ref(key);
        let mut locks = self.do_with(action, keys, false).await?;
        Ok(locks.pop().unwrap_or_else(|| LockInfo::free(key.name())))
    }
}

fn has_key(answer: &Value) -> bool {
    Seen::read(answer).is_ok_and(|seen| seen.value.is_some())
}

/// Joins the nodes' answers about the lock `key`. `count` is the number of all nodes.
fn counted(key: &str, count: usize, answers: &[Seen<'_>]) -> LockInfo {
    let mut info = LockInfo::free(key);
    let mut kept = Vec::new();
    // The holders, by their token, or by the whole value if it has no token.
    let mut holders: BTreeMap<Vec<u8>, Holder> = BTreeMap::new();
    for seen in answers {
        let Some(value) = seen.value else {
            continue;
        };
        let text = String::from_utf8_lossy(value);
        if let Some(until) = kept_until(&text, seen) {
            kept.push(until);
            continue;
        }
        let holder = holder(&text, seen);
        let token = value::token(text.strip_prefix('r').unwrap_or(&text));
        let name = token.map_or(value, |(token, _)| token.as_bytes()).to_vec();
        let known = holders.entry(name).or_insert_with(|| Holder {
            nodes: Some(0),
            ..holder.clone()
        });
        known.nodes = known.nodes.map(|nodes| nodes + 1);
        known.expires_in = known.expires_in.max(holder.expires_in);
        known.revoked |= holder.revoked;
    }
    info.nodes = u32::try_from(answers.len()).ok();
    let silent = count - answers.len();
    info.silent = u32::try_from(silent).unwrap_or(u32::MAX);
    info.holders = holders.into_values().collect();
    info.holders
        .sort_by_key(|holder| std::cmp::Reverse(holder.nodes));
    let mut holders = info.holders.iter();
    if holders.any(|holder| info.may_be_held_by(holder)) {
        info.state = LockState::Exclusive;
    } else if !kept.is_empty() && majority(count) <= kept.len() + silent {
        info.state = LockState::Kept;
        info.kept_until = kept.into_iter().max();
    }
    info
}

/// Returns the time until which a node keeps the lock after its release. `None` if the lock is
/// held. A kept lock has a token of zeros.
fn kept_until(value: &str, seen: &Seen<'_>) -> Option<SystemTime> {
    let (token, _) = value::token(value)?;
    let is_kept = token.bytes().all(|digit| digit == b'0');
    is_kept.then(|| seen.now + seen.left.unwrap_or_default())
}

/// Returns the holder in a node's value. A value in another format may be `token:owner`, as written
/// by version 0.1.0 of leasehold.
fn holder(value: &str, seen: &Seen<'_>) -> Holder {
    let (record, revoked) = match Written::read(value) {
        Written::Held(record) => (record, false),
        Written::Revoked(record) => (record, true),
        _ => {
            let owner = value::token(value).and_then(|(_, rest)| Owner::read(rest));
            return Holder {
                foreign: owner.is_none(),
                owner,
                ..Holder::unknown(seen.left)
            };
        }
    };
    Holder {
        fence: None,
        revoked,
        ..record.holder(seen.left, seen.now)
    }
}

impl Source for RedlockSource {
    fn look<'a>(&'a mut self, key: &'a FullKey) -> Asking<'a, LockInfo> {
        Box::pin(async move {
            let looked = self.one(Action::Inspect, key).await;
            looked.map_err(|failure| failure.error)
        })
    }

    fn page<'a>(&'a mut self, pattern: &'a Pattern, place: Place) -> Asking<'a, Page> {
        Box::pin(async move {
            let page = self.some(pattern, &place).await;
            page.map_err(|failure| failure.error)
        })
    }

    fn take_away<'a>(&'a mut self, key: &'a FullKey) -> Asking<'a, LockInfo> {
        Box::pin(async move {
            let taken = self.one(Action::TakeAway, key).await;
            taken.map_err(|failure| failure.error)
        })
    }
}
