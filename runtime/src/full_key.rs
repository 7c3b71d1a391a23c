//! Keys as the store knows them, and maps by them.

use std::collections::HashMap;
#[cfg(any(feature = "redis", feature = "__test", test))]
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

/// Callers choose keys, so they are hashed as the standard library's maps do it: nobody can make many fall together.
static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A key on the server, namespace included, with its hash: on the way of one lock from the call to its release the engine looks for it in
/// a dozen maps, and to hash it each time took a sixth of all that a call on `memory://` costs.
#[derive(Clone)]
pub(crate) struct FullKey {
    text: Arc<str>,
    hash: u64,
}

/// A map by such a key.
pub(crate) type KeyMap<V> = HashMap<FullKey, V, BuildHasherDefault<Known>>;

/// A set of such keys.
#[cfg(any(feature = "redis", feature = "__test", test))]
pub(crate) type KeySet = HashSet<FullKey, BuildHasherDefault<Known>>;

impl From<Arc<str>> for FullKey {
    fn from(text: Arc<str>) -> Self {
        let hash = HASHES.hash_one(&*text);
        Self { text, hash }
    }
}

impl From<&str> for FullKey {
    fn from(text: &str) -> Self {
        Arc::<str>::from(text).into()
    }
}

impl From<String> for FullKey {
    fn from(text: String) -> Self {
        Arc::<str>::from(text).into()
    }
}

impl Deref for FullKey {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl PartialEq for FullKey {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && (Arc::ptr_eq(&self.text, &other.text) || self.text == other.text)
    }
}

impl Eq for FullKey {}

impl Hash for FullKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl fmt::Debug for FullKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

impl fmt::Display for FullKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&*self.text, f)
    }
}

/// Takes a number that is a hash already.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known(u64);

impl Hasher for Known {
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
    fn a_key_is_found_by_its_text_wherever_that_lies() {
        let mut map = KeyMap::default();
        for number in 0..1_000 {
            map.insert(FullKey::from(format!("key {number}")), number);
        }
        let found = |number: i32| map.get(&FullKey::from(format!("key {number}").as_str()));
        assert!((0..1_000).all(|number| found(number) == Some(&number)));
        assert_eq!(found(1_000), None);
    }

    #[test]
    fn keys_of_the_same_hash_are_not_the_same() {
        let one = FullKey::from("one");
        let other = FullKey {
            text: "other".into(),
            hash: one.hash,
        };
        assert_ne!(one, other);
        let map = KeyMap::from_iter([(one.clone(), 1), (other.clone(), 2)]);
        assert_eq!((map.get(&one), map.get(&other)), (Some(&1), Some(&2)));
    }
}
