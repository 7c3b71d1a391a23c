//! Maps by numbers that this process counts up itself.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by such a number. Nobody else chooses its keys, so it need not guard against chosen ones, which is what makes
/// the standard hasher slow: it was a twelfth of the engine's time.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// Spreads numbers, and leaves sixteen that follow each other together: what was asked for together is renewed together, and is found
/// with fewer looks at memory that no cache holds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spread(u64);

/// 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming, vol. 3, 6.4: multiplicative hashing).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// So many numbers are left together.
const PLACES: u64 = 16;

impl Hasher for Spread {
    fn write_u64(&mut self, number: u64) {
        let number = self.0 ^ number;
        let (block, place) = (number >> PLACES.trailing_zeros(), number % PLACES);
        // A map takes the last bits for the place, and compares the first before it looks at the number itself.
        self.0 = (block.wrapping_mul(GOLDEN) << PLACES.trailing_zeros() | place)
            ^ place.rotate_right(PLACES.trailing_zeros());
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
    fn consecutive_numbers_differ_in_the_bits_that_a_map_looks_at() {
        let hash = |number| BuildHasherDefault::<Spread>::default().hash_one(OpId(number));
        let low: HashSet<_> = (0..256).map(|number| hash(number) & 0xff).collect();
        let high: HashSet<_> = (0..256).map(|number| hash(number) >> 57).collect();
        assert_eq!((low.len(), high.len()), (256, 128));
    }

    #[test]
    fn sixteen_that_follow_each_other_lie_together() {
        let hash = |number| BuildHasherDefault::<Spread>::default().hash_one(OpId(number));
        for first in [0, PLACES, 1000 * PLACES] {
            let places: Vec<_> = (first..first + PLACES).map(|id| hash(id) & 0xfff).collect();
            assert!(
                places.is_sorted() && places[0] + PLACES - 1 == places[15],
                "{places:?}"
            );
        }
    }
}
