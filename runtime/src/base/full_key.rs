//! Full keys, as the store knows them: the pool's namespace and the name that callers specify. Also
//! maps and sets of full keys.

use std::collections::HashMap;
#[cfg(any(feature = "redis", feature = "__test", test))]
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::ops::Deref;

use once_cell::sync::Lazy;
use triomphe::{Arc, HeaderSlice};

/// The hash function of the standard library's maps, with a random seed. Users of the program can
/// influence the keys of locks, but must not be able to choose many keys with the same hash.
static HASHES: Lazy<RandomState> = Lazy::new(RandomState::new);

/// A key on the server, namespace included. Clones share one allocation, which also has the key's
/// cached hash.
///
/// During one call, its key is looked up in a dozen maps. Without the cached hash, hashing took a
/// sixth of the time of a call on `memory://`.
#[derive(Clone)]
pub(crate) struct FullKey(Arc<HeaderSlice<Header, str>>);

struct Header {
    hash: u64,
    /// Index in the text at which the name begins, after the namespace and the colon.
    name_at: usize,
}

/// A map from full keys to values. Uses the cached hashes.
pub(crate) type KeyMap<V> = HashMap<FullKey, V, BuildHasherDefault<Prehashed>>;

/// A set of full keys. Uses the cached hashes.
#[cfg(any(feature = "redis", feature = "__test", test))]
pub(crate) type KeySet = HashSet<FullKey, BuildHasherDefault<Prehashed>>;

/// Keys up to this length, in bytes, are built on the stack, which saves an allocation.
const SHORT: usize = 128;

impl FullKey {
    /// Builds the key from the pool's namespace and the name that callers specify.
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        let colon = if namespace.is_empty() { "" } else { ":" };
        let parts = [namespace, colon, name];
        let name_at = namespace.len() + colon.len();
        let len = name_at + name.len();
        let mut short = [0; SHORT];
        let text = short.get_mut(..len).and_then(|short| {
            // `short` is exactly as long as the parts together.
            let mut rest = &mut *short;
            for part in parts {
                let (this, next) = rest.split_at_mut(part.len());
                this.copy_from_slice(part.as_bytes());
                rest = next;
            }
            str::from_utf8(short).ok()
        });
        match text {
            Some(text) => Self::named(text, name_at),
            None => Self::named(&parts.concat(), name_at),
        }
    }

    fn named(text: &str, name_at: usize) -> Self {
        let hash = HASHES.hash_one(text);
        Self(Arc::from_header_and_str(Header { hash, name_at }, text))
    }

    /// Returns the cached hash of the whole key. Each process has a different hash for the same
    /// key.
    #[cfg(feature = "etcd")]
    pub(crate) fn hash_of_process(&self) -> u64 {
        self.0.header.hash
    }

    /// Returns the name that callers specify, without the namespace.
    pub(crate) fn name(&self) -> &str {
        // A key not built by `new` has no known namespace, so its whole text is the name.
        &self[self.0.header.name_at..]
    }
}

impl From<&str> for FullKey {
    fn from(text: &str) -> Self {
        Self::named(text, 0)
    }
}

impl From<String> for FullKey {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl Deref for FullKey {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0.slice
    }
}

impl PartialEq for FullKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.header.hash == other.0.header.hash && **self == **other)
    }
}

impl Eq for FullKey {}

impl Hash for FullKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.header.hash);
    }
}

impl fmt::Debug for FullKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for FullKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

/// A hasher for values with a precomputed hash.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Prehashed(u64);

impl Hasher for Prehashed {
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_its_text_at_any_address() {
        let mut map = KeyMap::default();
        for number in 0..1_000 {
            map.insert(FullKey::from(format!("key {number}")), number);
        }
        let found = |number: i32| map.get(&FullKey::from(format!("key {number}").as_str()));
        assert!((0..1_000).all(|number| found(number) == Some(&number)));
        assert_eq!(found(1_000), None);
    }

    #[test]
    fn a_full_key_consists_of_namespace_and_name() {
        let key = |namespace: &str, name: &str| {
            let key = FullKey::new(namespace, name);
            assert_eq!(key, FullKey::from(&*key), "whichever way it was made");
            assert_eq!(key.name(), name);
            key.to_string()
        };
        assert_eq!(key("", "order:42"), "order:42");
        assert_eq!(key("shop", "order:42"), "shop:order:42");
        let most = SHORT - "shop:".len();
        for long in [most - 1, most, most + 1, 4 * SHORT] {
            let name = "é".repeat(long / 2) + &"e".repeat(long % 2);
            assert_eq!(key("shop", &name), format!("shop:{name}"));
        }
    }

    #[test]
    fn keys_with_the_same_hash_are_different() {
        let one = FullKey::from("one");
        let hash = one.0.header.hash;
        let other = Arc::from_header_and_str(Header { hash, name_at: 0 }, "other");
        let other = FullKey(other);
        assert_ne!(one, other);
        let map = KeyMap::from_iter([(one.clone(), 1), (other.clone(), 2)]);
        assert_eq!((map.get(&one), map.get(&other)), (Some(&1), Some(&2)));
    }
}
