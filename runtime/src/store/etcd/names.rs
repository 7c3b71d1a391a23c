//! Which key of etcd is which node.
//!
//! `<prefix>/<lock's key>/<lease>-<name>`: the lock's key with `/` and `%` percent-encoded, so that
//! no directory is a part of another. A session has a key of its own, `<prefix>/%/<lease>`, in a
//! directory that no lock has.

use std::fmt::Write as _;

use crate::base::seeded::seeded;
use crate::store::session::service::Node;

/// The names under one prefix.
#[derive(Debug, Clone)]
pub(super) struct Names {
    prefix: String,
}

impl Names {
    pub(super) fn new(prefix: &str) -> Self {
        let prefix = prefix.to_owned();
        Self { prefix }
    }

    /// What all nodes of the lock's key begin with.
    pub(super) fn directory(&self, key: &str) -> String {
        let mut directory = String::with_capacity(self.prefix.len() + key.len() + 2);
        directory.push_str(&self.prefix);
        directory.push('/');
        for c in key.chars() {
            match c {
                '/' => directory.push_str("%2F"),
                '%' => directory.push_str("%25"),
                c => directory.push(c),
            }
        }
        directory.push('/');
        directory
    }

    /// The node of the session with this lease.
    pub(super) fn node(&self, lease: i64, node: &Node) -> String {
        let lease = if seeded!(NodesOfAnySession) { 0 } else { lease };
        let mut name = self.directory(&node.key);
        let _ = write!(name, "{lease:016x}-{}", node.name.hex());
        name
    }

    /// The key of a session.
    pub(super) fn session(&self, lease: i64) -> String {
        format!("{}/%/{lease:016x}", self.prefix)
    }
}

/// The first key behind all keys that begin with `prefix`, which ends with `/`.
pub(super) fn end_of(prefix: &str) -> Vec<u8> {
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
    fn no_directory_is_a_part_of_another() {
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
    fn a_node_carries_its_session() {
        let names = Names::new("shop");
        let node = Node {
            key: "lock:a".into(),
            name: Token::fixed(0xab),
        };
        assert_eq!(
            names.node(0x1f, &node),
            format!("shop/lock:a/000000000000001f-{:032x}", 0xab)
        );
        assert_eq!(names.session(0x1f), "shop/%/000000000000001f");
    }
}
