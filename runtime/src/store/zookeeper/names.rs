//! Maps nodes to znodes.
//!
//! A node has the path `/<chroot>/<lock's key>/_c_<name>-lock-<number>`. The lock's key is
//! percent-encoded, the name is a UUID, and the server gives the number. Curator's
//! `InterProcessMutex` on the path `/<chroot>/<lock's key>` uses the same names. A session has its
//! own znode `/<chroot>/%/<session>`. No lock has the directory `%`, because an encoded key is
//! never a single `%`. Beside the session's znode, `/<chroot>/%/<session>-revoked` has a child for
//! each of the session's nodes that another process takes away by force.

use std::fmt::Write as _;

use super::failure;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::store::session::service::Trouble;

/// Text before the number in Curator's names.
const LOCK: &str = "lock-";

/// Builds the paths below one chroot.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    chroot: String,
}

/// The number that the server gave a znode in its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number(i32);

impl Number {
    /// True if the directory has used up its numbers. The server then repeats the last number, or
    /// continues with negative numbers (ZOOKEEPER-3249), so the numbers no longer show the order.
    pub(crate) fn is_worn_out(self) -> bool {
        self.0 < 0 || self.0 == i32::MAX
    }
}

impl Names {
    /// Returns the names below `chroot`, a path without leading and trailing slashes.
    pub(crate) fn new(chroot: &str) -> Self {
        let chroot = chroot.to_owned();
        Self { chroot }
    }

    /// Returns the directory of the lock's key.
    pub(crate) fn directory(&self, key: &str) -> String {
        let mut directory = format!("/{}/", self.chroot);
        let is_dots = matches!(key, "." | "..");
        for c in key.chars() {
            if is_plain(c) && c != '/' && c != '%' && !is_dots {
                directory.push(c);
                continue;
            }
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(directory, "%{byte:02X}");
            }
        }
        directory
    }

    /// Returns the parent path of the directories of all locks.
    pub(super) fn above(&self) -> String {
        format!("/{}", self.chroot)
    }

    /// Returns the directory of the sessions' own znodes.
    pub(super) fn sessions(&self) -> String {
        format!("/{}/%", self.chroot)
    }

    /// Returns the path of a session's own znode.
    pub(super) fn session(&self, id: i64) -> String {
        format!("/{}/%/{id:016x}", self.chroot)
    }

    /// Returns the directory with the revocations of a session's nodes.
    pub(super) fn revocations(&self, id: i64) -> String {
        format!("{}-revoked", self.session(id))
    }
}

/// Returns the name of the znode that revokes this node.
pub(crate) fn revoked(name: Token, fence: Fence) -> String {
    format!("{}-{fence}", name.hex(), fence = fence.get())
}

/// Returns the name and the fence of the node that the revocation `znode` is for.
pub(crate) fn read_revoked(znode: &str) -> Option<(Token, Fence)> {
    let (name, fence) = znode.split_once('-')?;
    Some((Token::parse(name)?, Fence::new(fence.parse().ok()?)))
}

/// Returns the node's name from the name of its znode. None if the znode's name does not begin with
/// the [`prefix`] of a node.
pub(crate) fn token(znode: &str) -> Option<Token> {
    let (name, _) = znode.strip_prefix("_c_")?.split_once("-lock-")?;
    Token::parse(&name.replace('-', ""))
}

/// Returns the start of the names of all znodes for the node `name`.
pub(crate) fn prefix(name: Token) -> String {
    let hex = name.hex();
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    format!("_c_{}-{LOCK}", parts.join("-"))
}

/// Returns the number at the end of a znode's name. None if Curator does not use such a name for an
/// exclusive lock.
pub(crate) fn number(name: &str) -> Option<Number> {
    let (_, number) = name.rsplit_once(LOCK)?;
    number.parse().ok().map(Number)
}

/// True if ZooKeeper accepts the path, which has no leading or trailing slashes.
pub(crate) fn is_path(path: &str) -> bool {
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && name.chars().all(is_plain);
    path.split('/').all(is_name) && path.split('/').next() != Some("zookeeper")
}

/// True if ZooKeeper accepts the character in a path. ZooKeeper checks the units of UTF-16 and
/// refuses surrogates. So it also refuses all characters above U+FFFF, which UTF-16 encodes as two
/// surrogates.
fn is_plain(c: char) -> bool {
    !matches!(u32::from(c), 0..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..)
}

/// Converts the transaction that created a znode to a fence.
pub(super) fn fence(transaction: i64) -> Result<Fence, Trouble> {
    let transaction = u64::try_from(transaction).map_err(|_| failure::garbled())?;
    Ok(Fence::new(transaction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_a_directory() {
        let names = Names::new("shop/locks");
        for (key, directory) in [
            ("lock:order:42", "/shop/locks/lock:order:42"),
            ("a/b", "/shop/locks/a%2Fb"),
            ("a%2Fb", "/shop/locks/a%252Fb"),
            ("%", "/shop/locks/%25"),
            ("..", "/shop/locks/%2E%2E"),
            ("...", "/shop/locks/..."),
            ("ä\n", "/shop/locks/ä%0A"),
            ("\u{85}", "/shop/locks/%C2%85"),
            ("\u{1f600}", "/shop/locks/%F0%9F%98%80"),
        ] {
            assert_eq!(names.directory(key), directory);
        }
        assert_eq!(names.sessions(), "/shop/locks/%");
        assert_eq!(names.session(31), "/shop/locks/%/000000000000001f");
    }

    #[test]
    fn znode_names_can_be_read_back() {
        let (name, fence) = (Token::fixed(0xab), Fence::new(7));
        assert_eq!(token(&format!("{}0000000003", prefix(name))), Some(name));
        assert_eq!(token("lock-0000000003"), None);
        assert_eq!(read_revoked(&revoked(name, fence)), Some((name, fence)));
        assert_eq!(read_revoked(""), None);
    }

    #[test]
    fn znodes_are_named_like_in_curator() {
        let prefix = prefix(Token::fixed(0xab));
        assert_eq!(prefix, "_c_00000000-0000-0000-0000-0000000000ab-lock-");
        let other = "_c_7a1b0fc2-9d1c-4c4e-a8e6-63b0cbd48f12-lock-0000000007";
        assert_eq!(number(other), Some(Number(7)));
        assert_eq!(number("lock-0000000008"), Some(Number(8)), "unprotected");
        for foreign in ["_c_x__READ__0000000001", "leases", "lock-", "lock-x"] {
            assert_eq!(number(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn worn_out_sequence_numbers_are_detected() {
        let worn_out = |name| number(name).is_some_and(Number::is_worn_out);
        assert!(worn_out("lock-2147483647") && worn_out("lock--2147483648"));
        assert!(!worn_out("lock-2147483646") && !worn_out("lock-0000000000"));
    }

    #[test]
    fn paths_follow_the_rules_of_zookeeper() {
        assert!(is_path("a") && is_path("a/b%c/ä") && is_path("a/zookeeper"));
        for wrong in [
            "",
            "a//b",
            ".",
            "a/..",
            "zookeeper",
            "zookeeper/a",
            "a\0",
            "\u{1f600}",
        ] {
            assert!(!is_path(wrong), "{wrong:?}");
        }
    }
}
