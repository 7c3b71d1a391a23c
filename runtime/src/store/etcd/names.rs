//! Maps nodes to keys of etcd.
//!
//! A node has the key `<prefix>/<lock's key>/<lease>-<name>`. The lock's key has `/` and `%`
//! percent-encoded, so that no directory is part of another. A session has its own key
//! `<prefix>/%/<lease>`, in a directory that no lock has. Below the session's key,
//! `<prefix>/%/<lease>/<name>-<fence>` revokes the session's node with this name and fence.

use std::fmt::Write as _;

use crate::base::digits::{hexadecimal, percent_decoded};
use crate::base::seeded::seeded;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::store::session::service::Node;

/// Builds and parses the keys below one prefix.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    prefix: String,
}

impl Names {
    pub(crate) fn new(prefix: &str) -> Self {
        let prefix = prefix.to_owned();
        Self { prefix }
    }

    /// Returns the prefix of the etcd keys of all nodes of the lock `key`.
    pub(crate) fn directory(&self, key: &str) -> String {
        let mut directory = self.beginning(key);
        directory.push('/');
        directory
    }

    /// Returns the prefix of the etcd keys of all nodes of locks whose keys start with `key`.
    pub(super) fn beginning(&self, key: &str) -> String {
        let mut beginning = String::with_capacity(self.prefix.len() + key.len() + 2);
        beginning.push_str(&self.prefix);
        beginning.push('/');
        for c in key.chars() {
            match c {
                '/' => beginning.push_str("%2F"),
                '%' => beginning.push_str("%25"),
                c => beginning.push(c),
            }
        }
        beginning
    }

    /// Splits the etcd key of a node into the lock's key and the end, `<lease>-<name>`. `None` if
    /// `node` is not below the prefix, or is not in the directory of a lock.
    pub(crate) fn parts<'a>(&self, node: &'a str) -> Option<(String, &'a str)> {
        let below = node.strip_prefix(&self.prefix)?.strip_prefix('/')?;
        let (directory, node) = below.split_once('/')?;
        let key = percent_decoded(directory)?;
        // Refuses other encodings of the lock's key, because each lock has only one directory.
        (self.beginning(&key).ends_with(directory)).then_some((key, node))
    }

    /// Returns the etcd key of the node in the session with this lease.
    pub(crate) fn node(&self, lease: i64, node: &Node) -> String {
        let lease = if seeded!(NodesOfAnySession) { 0 } else { lease };
        let mut name = self.directory(&node.key);
        let _ = write!(name, "{lease:016x}-{}", node.name.hex());
        name
    }

    /// Returns the key of a session.
    pub(crate) fn session(&self, lease: i64) -> String {
        format!("{}/%/{lease:016x}", self.prefix)
    }
}

/// Returns the key that revokes the session's node with this name and fence.
pub(crate) fn revocation(session: &str, name: Token, fence: Fence) -> String {
    format!("{session}/{}-{}", name.hex(), fence.get())
}

/// Returns the name and the fence of the node that the revocation `key` is for.
pub(crate) fn revoked(session: &str, key: &[u8]) -> Option<(Token, Fence)> {
    let key = std::str::from_utf8(key).ok()?;
    let node = key.strip_prefix(session)?.strip_prefix('/')?;
    let (name, fence) = node.split_once('-')?;
    Some((Token::parse(name)?, Fence::new(fence.parse().ok()?)))
}

/// Parses the lease and the name of a node from the end of its key.
pub(crate) fn own(node: &str) -> Option<(i64, Token)> {
    let (lease, name) = node.split_once('-')?;
    let lease = hexadecimal(lease)?;
    Some((lease.cast_signed(), Token::parse(name)?))
}

/// Returns the first key after all keys that start with `prefix`, which must not be empty.
pub(crate) fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::token::Token;

    #[test]
    fn no_directory_is_a_prefix_of_another() {
        let names = Names::new("shop");
        let directories = ["a", "a/", "a/b", "a%2Fb", "%", "ä:1"].map(|key| names.directory(key));
        for (at, directory) in directories.iter().enumerate() {
            assert!(directory.as_bytes() < end_of(directory).as_slice());
            for (other_at, other) in directories.iter().enumerate() {
                let is_part = other.starts_with(directory.as_str());
                assert_eq!(is_part, at == other_at, "{directory} {other}");
            }
        }
        assert_eq!(directories[2], "shop/a%2Fb/");
    }

    #[test]
    fn keys_can_be_read_back() {
        let names = Names::new("shop/locks");
        let node = |key: &str| Node {
            key: key.into(),
            name: Token::fixed(0xab),
            number: 0,
        };
        for key in ["lock:a", "lock:a/b", "lock:100%", "lock:%2F", "lock:ä"] {
            let name = names.node(-2, &node(key));
            assert!(name.starts_with(&names.beginning(&key[..5])));
            let (found, end) = names.parts(&name).expect("it is below the prefix");
            assert_eq!(
                (found.as_str(), own(end)),
                (key, Some((-2, Token::fixed(0xab))))
            );
        }
        assert_eq!(names.parts("shop/lock:a/1-2"), None);
        assert_eq!(own("by-hand"), None);
        let session = names.session(7);
        let node = (Token::fixed(0xab), Fence::new(9));
        let reported = revocation(&session, node.0, node.1);
        assert_eq!(revoked(&session, reported.as_bytes()), Some(node));
        assert_eq!(revoked(&session, session.as_bytes()), None);
    }

    #[test]
    fn a_node_name_contains_its_session() {
        let names = Names::new("shop");
        let node = Node {
            key: "lock:a".into(),
            name: Token::fixed(0xab),
            number: 0,
        };
        assert_eq!(
            names.node(0x1f, &node),
            format!("shop/lock:a/000000000000001f-{:032x}", 0xab)
        );
        assert_eq!(names.session(0x1f), "shop/%/000000000000001f");
    }
}
