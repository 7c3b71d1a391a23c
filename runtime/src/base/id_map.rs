//! Maps for consecutive ids that this process assigns.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by id, with a fast hasher. The standard hasher took a twelfth of the engine's time. Its
/// protection against attackers who choose keys with the same hash is not needed, because only this
/// process chooses the ids.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// A hasher that places sixteen consecutive ids (a block) side by side in the map, and scatters the
/// blocks. Locks requested at the same time have consecutive ids, and are also renewed at the same
/// time. So their lookups cause fewer cache misses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spread(u64);

/// The factor for multiplicative hashing: 2^64 divided by the golden ratio (Knuth, The Art of
/// Computer Programming, vol. 3, 6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Number of consecutive ids that are stored side by side.
const BLOCK: u64 = 16;

impl Hasher for Spread {
    fn write_u64(&mut self, number: u64) {
        let number = self.0 ^ number;
        let (block, offset) = (number >> BLOCK.trailing_zeros(), number % BLOCK);
        // A map selects the bucket by the low bits of the hash, and compares the high bits before
        // it compares ids. So the hashes of two ids should differ in both parts.
        self.0 = (block.wrapping_mul(GOLDEN) << BLOCK.trailing_zeros() | offset)
            ^ offset.rotate_right(BLOCK.trailing_zeros());
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, BuildHasherDefault};

    use super::*;
    use crate::store::OpId;

    #[test]
    fn hashes_of_consecutive_ids_differ_in_the_relevant_bits() {
        let hash = |number| BuildHasherDefault::<Spread>::default().hash_one(OpId(number));
        let low: HashSet<_> = (0..256).map(|number| hash(number) & 0xff).collect();
        let high: HashSet<_> = (0..256).map(|number| hash(number) >> 57).collect();
        assert_eq!((low.len(), high.len()), (256, 128));
    }

    #[test]
    fn sixteen_consecutive_ids_are_stored_together() {
        let hash = |number| BuildHasherDefault::<Spread>::default().hash_one(OpId(number));
        for first in [0, BLOCK, 1000 * BLOCK] {
            let places: Vec<_> = (first..first + BLOCK).map(|id| hash(id) & 0xfff).collect();
            assert!(
                places.is_sorted() && places[0] + BLOCK - 1 == places[15],
                "{places:?}"
            );
        }
    }
}
