//! Reusable names for the nodes of a session.
//!
//! The server keeps deleted keys until it compacts its history. For each acquire, the server reads
//! all keys of the lock's directory, including deleted ones. With reused names, an acquire costs
//! the same no matter how often the lock was taken. A name is free once no request for its former
//! node can still be carried out.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::full_key::{FullKey, KeyMap};
use crate::base::seeded::seeded;
use crate::base::token::Token;
use crate::store::session::service::{Answer, Node, Trouble};

/// Existence of a node after a request for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum There {
    /// The node does not exist, and no earlier request can create it.
    No,
    Maybe,
    /// The request has not created the node, but an earlier request may have.
    AsBefore,
}

/// The state of a name that a node uses.
#[derive(Debug)]
struct Taken {
    /// See [`Node::number`].
    number: u64,
    under_way: u32,
    may_be_there: bool,
}

/// The names of a session's nodes. Each lock's key has a list, and a node's position in this list
/// determines its name.
#[derive(Debug, Default)]
pub(super) struct NodeNames {
    by_key: Mutex<KeyMap<Vec<Option<Taken>>>>,
}

impl There {
    /// Returns `done` after a success, `Maybe` if a failed request may have been carried out, and
    /// `AsBefore` after any other failure.
    pub(super) fn after<T>(answer: &Answer<T>, done: Self) -> Self {
        match answer {
            Ok(_) => done,
            Err(Trouble::Failed(failure)) if failure.executed => Self::Maybe,
            Err(_) => Self::AsBefore,
        }
    }
}

impl NodeNames {
    fn by_key(&self) -> MutexGuard<'_, KeyMap<Vec<Option<Taken>>>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a free name for the new node that has this `number` (see `Node::number`).
    pub(super) fn take(&self, key: &FullKey, number: u64) -> Token {
        let mut by_key = self.by_key();
        let names = by_key.entry(key.clone()).or_default();
        let free = names.iter().position(Option::is_none);
        let at = free.unwrap_or(names.len());
        if at == names.len() {
            names.push(None);
        }
        names[at] = Some(Taken {
            number,
            under_way: 0,
            may_be_there: false,
        });
        let at = u64::try_from(at).unwrap_or(number);
        let at = if seeded!(NamesUsedOnce) { number } else { at };
        Token::numbered(key.hash_of_process(), at)
    }

    /// Records the start of a request for the node. After the request, call [`ends`](Self::ends).
    /// Returns false if the node is gone: its name is free or belongs to another node.
    pub(super) fn begins(&self, node: &Node) -> bool {
        let mut by_key = self.by_key();
        let names = by_key.get_mut(&node.key);
        let mut taken = names.into_iter().flatten().flatten();
        let taken = taken.find(|taken| taken.number == node.number);
        taken.map(|taken| taken.under_way += 1).is_some()
    }

    /// Records the end of a request for the node.
    pub(super) fn ends(&self, node: &Node, there: There) {
        let mut by_key = self.by_key();
        let Some(names) = by_key.get_mut(&node.key) else {
            return;
        };
        let is_this = |name: &Option<Taken>| {
            let taken = name.as_ref();
            taken.is_some_and(|taken| taken.number == node.number)
        };
        let Some(name) = names.iter_mut().find(|name| is_this(name)) else {
            return;
        };
        if let Some(taken) = name {
            taken.under_way -= 1;
            taken.may_be_there |= there == There::Maybe;
            let is_gone = there == There::No || (there == There::AsBefore && !taken.may_be_there);
            if is_gone && (taken.under_way == 0 || seeded!(NamesGivenEarly)) {
                *name = None;
            }
        }
        while names.last().is_some_and(Option::is_none) {
            names.pop();
        }
        if names.is_empty() {
            by_key.remove(&node.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Failure, Retry};

    fn node(names: &NodeNames, number: u64) -> Node {
        let key = FullKey::from("lock:k");
        Node {
            name: names.take(&key, number),
            key,
            number,
        }
    }

    fn asked(names: &NodeNames, node: &Node, there: There) {
        assert!(names.begins(node));
        names.ends(node, there);
    }

    /// Fails if the number of names grows each time that a lock is taken again.
    #[test]
    fn a_node_name_is_reused() {
        let names = NodeNames::default();
        let (first, second) = (node(&names, 1), node(&names, 2));
        assert_ne!(first.name, second.name);
        asked(&names, &first, There::Maybe);
        asked(&names, &first, There::No);
        assert!(!names.begins(&first), "it is gone");
        let third = node(&names, 3);
        assert_eq!(third.name, first.name);
        assert_ne!(third, first);
        asked(&names, &third, There::AsBefore);
        asked(&names, &second, There::No);
        assert!(names.by_key().is_empty(), "nothing is left of the key");
    }

    /// Fails if the name of a removed node is reused while an earlier request could still create or
    /// remove a node of this name.
    #[test]
    fn a_node_name_is_kept_while_a_request_is_pending() {
        let names = NodeNames::default();
        let first = node(&names, 1);
        assert!(names.begins(&first) && names.begins(&first));
        names.ends(&first, There::No);
        assert_ne!(node(&names, 2).name, first.name, "another is under way");
        names.ends(&first, There::Maybe);
        asked(&names, &first, There::AsBefore);
        assert_ne!(node(&names, 3).name, first.name, "it may be there");
        asked(&names, &first, There::No);
        assert_eq!(node(&names, 4).name, first.name);
    }

    #[test]
    fn a_failure_updates_the_known_state_of_a_node() {
        let failed = |executed| -> Answer<()> {
            let text = "no answer".to_owned();
            let failure = Failure::unavailable("timeout", text, Retry::Later, executed);
            Err(Trouble::Failed(failure))
        };
        let after = |answer| There::after(&answer, There::No);
        assert_eq!(after(Ok(())), There::No);
        assert_eq!(after(failed(true)), There::Maybe);
        assert_eq!(after(failed(false)), There::AsBefore);
        assert_eq!(after(Err(Trouble::Ended)), There::AsBefore);
    }
}
