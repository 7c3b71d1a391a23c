//! The simulated server. Each key has a value, an expiry, and a queue of processes.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::world::{Caller, Entry, Holder, Message, SERVER_TTL_PER_MILLE, State, World};
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::store::{CLAIM, FORGOTTEN, Give, GiveKind, Op, Renewal, Reply, Take, TakeKind};

impl World {
    pub(super) fn serve(&mut self, node: usize, op: &Op) -> Reply {
        match op {
            Op::Take(take) => self.serve_take(node, take),
            Op::TakeAll {
                keys,
                ttl,
                function,
            } => self.serve_all(node, keys, *ttl, function),
            Op::Keep { renewals, shares } => {
                let keep = |one| {
                    if *shares {
                        self.serve_stay(one)
                    } else {
                        self.serve_renew(one)
                    }
                };
                Reply::Renewed(renewals.iter().map(keep).collect())
            }
            Op::Give(give) => Reply::Released {
                found: self.serve_give(give),
                ordered: give.after.is_empty(),
            },
            Op::Leave { key } => {
                self.serve_leave(node, key);
                Reply::Left
            }
            Op::Forget { key } => Reply::Forgotten(self.serve_forget(key)),
            // No simulated call gives its lock to another core, so there is no lock to adopt.
            Op::Adopt { .. } => Reply::Gone,
        }
    }

    fn serve_take(&mut self, node: usize, take: &Take) -> Reply {
        match take.kind {
            TakeKind::Lock { reserved_fences } => {
                self.give_turn(node, &take.key);
                self.serve_acquire(node, take, reserved_fences)
            }
            TakeKind::Share { .. } => {
                self.give_turn(node, &take.key);
                self.serve_join(node, take)
            }
            TakeKind::Recall => self.serve_recall(node, take),
        }
    }

    fn serve_give(&mut self, give: &Give) -> bool {
        let Give {
            key, token, keep, ..
        } = give;
        match &give.kind {
            GiveKind::Lock => self.serve_release(key, *token, *keep),
            GiveKind::Share => self.serve_part(key, *token, *keep),
            GiveKind::Record(record) => self.serve_record(key, *token, *keep, record),
        }
    }

    /// Hands a free key over to the first process in its queue. If that process is `node`, whose
    /// request the server handles now, only removes it from the queue.
    pub(super) fn give_turn(&mut self, node: usize, key: &FullKey) {
        if self.live(key).is_none() {
            self.hand_over(key, Some(node));
        }
    }

    pub(super) fn serve_release(
        &mut self,
        key: &FullKey,
        token: Token,
        keep: Option<Duration>,
    ) -> bool {
        let now = self.now;
        let held = |entry: &&mut Entry| entry.token() == Some(token);
        let held = self.live(key).filter(held);
        let found = held.is_some();
        if let (Some(entry), Some(keep)) = (held, keep) {
            entry.expires = now + on_server(keep);
            entry.holder = Holder::Kept(token);
        } else if found && !self.hand_over(key, None) {
            self.entries.remove(key);
        }
        found
    }

    pub(super) fn serve_acquire(
        &mut self,
        node: usize,
        take: &Take,
        reserved_fences: u32,
    ) -> Reply {
        let Take {
            key,
            token,
            ttl,
            queue,
            ..
        } = take;
        let now = self.now;
        let wanted = Some(self.queues.get(key).is_some_and(|queue| !queue.is_empty()));
        if let Some(entry) = self.live(key) {
            match entry.holder {
                Holder::Token {
                    token: held,
                    fence,
                    reserved_fences,
                } if held == *token => {
                    entry.expires = now + on_server(*ttl);
                    let fence = Some(fence);
                    return Reply::Acquired {
                        fence,
                        reserved_fences,
                        wanted,
                    };
                }
                Holder::Handed if entry.node == node => {}
                _ => {
                    let (left, holder) = (Some(entry.expires.since(now)), entry.node);
                    if *queue {
                        self.enqueue(node, key, holder);
                    }
                    let queued = *queue;
                    return Reply::Held {
                        left,
                        queued,
                        owner: None,
                    };
                }
            }
        }
        self.check_free(key, *token, false);
        self.check_kept(key, false);
        let fence = Fence::new(self.last_fence + 1);
        self.last_fence += 1 + u64::from(reserved_fences);
        let holder = Holder::Token {
            token: *token,
            fence,
            reserved_fences,
        };
        self.enter(node, key, holder, *ttl);
        let before = self.fences.insert(key.clone(), fence);
        assert!(before < Some(fence));
        Reply::Acquired {
            fence: Some(fence),
            reserved_fences,
            wanted,
        }
    }

    fn enter(&mut self, node: usize, key: &FullKey, holder: Holder, ttl: Duration) {
        let entry = Entry {
            holder,
            node,
            expires: self.now + on_server(ttl),
        };
        self.entries.insert(key.clone(), entry);
    }

    fn serve_join(&mut self, node: usize, take: &Take) -> Reply {
        let Take {
            key,
            token,
            ttl,
            queue,
            ..
        } = take;
        let now = self.now;
        let first = self.first(key);
        let (mut shares, mut expires) = (HashMap::new(), now + on_server(*ttl));
        if let Some(entry) = self.live(key) {
            match &mut entry.holder {
                Holder::Shared(present)
                    if present.contains_key(token) || first.is_none_or(|first| first == node) =>
                {
                    shares = std::mem::take(present);
                    expires = expires.max(entry.expires);
                }
                Holder::Handed if entry.node == node => {}
                _ => {
                    let (left, holder) = (Some(entry.expires.since(now)), entry.node);
                    if *queue {
                        self.enqueue(node, key, holder);
                    }
                    let (queued, first) = (*queue, first.filter(|first| *first != node));
                    self.invite(key, first);
                    return Reply::Held {
                        left,
                        queued,
                        owner: None,
                    };
                }
            }
        }
        self.check_free(key, *token, true);
        self.check_kept(key, true);
        if first == Some(node) {
            self.queues.entry(key.clone()).or_default().pop_front();
        }
        shares.insert(*token, now + on_server(*ttl));
        let entry = Entry {
            holder: Holder::Shared(shares),
            node,
            expires,
        };
        self.entries.insert(key.clone(), entry);
        self.last_fence += 1;
        let next = self.first(key);
        self.invite(key, next);
        Reply::Acquired {
            fence: Some(Fence::new(self.last_fence)),
            reserved_fences: 0,
            wanted: Some(next.is_some()),
        }
    }

    /// Notifies a process that it may get a share. A process without a connection loses its place
    /// in the queue.
    fn invite(&mut self, key: &FullKey, node: Option<usize>) {
        if let Some(node) = node
            && !self.publish(node, Message::Called(key.clone()))
        {
            self.serve_leave(node, key);
        }
    }

    fn serve_stay(&mut self, renewal: &Renewal) -> bool {
        let end = self.now + on_server(renewal.ttl);
        let Some(entry) = self.live(&renewal.key) else {
            return false;
        };
        if entry.token() == Some(renewal.token) {
            entry.holder = Holder::Shared(HashMap::from([(renewal.token, end)]));
            entry.expires = end;
            let first = self.first(&renewal.key);
            self.invite(&renewal.key, first);
            return true;
        }
        let Holder::Shared(shares) = &mut entry.holder else {
            return false;
        };
        let Some(share) = shares.get_mut(&renewal.token) else {
            return false;
        };
        *share = end;
        entry.expires = entry.expires.max(end);
        true
    }

    fn first(&self, key: &FullKey) -> Option<usize> {
        let first = self.queues.get(key).and_then(VecDeque::front);
        first.map(|(node, _)| *node)
    }

    fn serve_part(&mut self, key: &FullKey, token: Token, keep: Option<Duration>) -> bool {
        if self.serve_release(key, token, keep) {
            return true;
        }
        let kept = keep.map(|keep| {
            let name = Token::fixed(u128::from(self.random.next()));
            self.kept_shares.insert(name, token);
            (name, self.now + on_server(keep))
        });
        let Some(entry) = self.live(key) else {
            return false;
        };
        let Holder::Shared(shares) = &mut entry.holder else {
            return false;
        };
        let found = shares.remove(&token).is_some();
        shares.extend(kept.filter(|_| found));
        entry.expires = shares.values().max().copied().unwrap_or(entry.expires);
        if found && shares.is_empty() {
            self.entries.remove(key);
            self.hand_over(key, None);
        } else if found {
            let first = self.first(key);
            self.invite(key, first);
        }
        found
    }

    fn enqueue(&mut self, node: usize, key: &FullKey, holder: usize) {
        let now = self.now;
        let queue = self.queues.entry(key.clone()).or_default();
        if let Some((_, seen)) = queue.iter_mut().find(|(queued, _)| *queued == node) {
            *seen = now;
        } else {
            queue.push_back((node, now));
        }
        self.publish(holder, Message::Wanted(key.clone()));
    }

    /// Hands a free key over to the first process in its queue, and returns true. Returns false if
    /// there is none. If the first is `asks`, whose request the server handles now, only removes it
    /// from the queue and returns false.
    pub(super) fn hand_over(&mut self, key: &FullKey, asks: Option<usize>) -> bool {
        let now = self.now;
        while let Some((node, seen)) = self.queues.get_mut(key).and_then(VecDeque::pop_front) {
            if FORGOTTEN < now.since(seen) {
                continue;
            }
            if asks == Some(node) {
                return false;
            }
            if self.publish(node, Message::Called(key.clone())) {
                let entry = Entry {
                    holder: Holder::Handed,
                    node,
                    expires: now + CLAIM,
                };
                self.entries.insert(key.clone(), entry);
                return true;
            }
        }
        false
    }

    fn serve_leave(&mut self, node: usize, key: &FullKey) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.retain(|(queued, _)| *queued != node);
        }
        let handed =
            |entry: &mut Entry| entry.node == node && matches!(entry.holder, Holder::Handed);
        if self.live(key).is_some_and(handed) && !self.hand_over(key, None) {
            self.entries.remove(key);
        }
    }

    /// Checks the server's grant of the key to `token`. It is a violation if the body of another
    /// call may still be polled inside the lock.
    pub(super) fn check_free(&mut self, key: &FullKey, token: Token, to_reader: bool) {
        let now = self.now;
        let inside = |caller: &Caller| {
            caller.key == *key
                && caller.token != token
                && !(to_reader && caller.reads)
                && !self.stolen.contains(&caller.token)
                && matches!(caller.state, State::Inside(end) if now < end)
        };
        if self
            .nodes
            .iter()
            .flat_map(|node| node.callers.values())
            .any(inside)
        {
            self.violation(format!(
                "the server gave {key} away while a body may still be polled inside it"
            ));
        }
    }

    pub(super) fn serve_renew(&mut self, renewal: &Renewal) -> bool {
        let now = self.now;
        match self.live(&renewal.key) {
            Some(entry) if entry.token() == Some(renewal.token) => {
                entry.expires = now + on_server(renewal.ttl);
                true
            }
            _ => false,
        }
    }

    pub(super) fn live(&mut self, key: &FullKey) -> Option<&mut Entry> {
        let now = self.now;
        let entry = self.entries.get_mut(key)?;
        if let Holder::Shared(shares) = &mut entry.holder {
            shares.retain(|_, end| now < *end);
        }
        (now < entry.expires).then_some(entry)
    }
}

pub(super) fn on_server(ttl: Duration) -> Duration {
    ttl * SERVER_TTL_PER_MILLE / 1000
}
