//! Slots of Redis Cluster: the slot of a key, and a short hash tag for each slot.

use std::sync::LazyLock;

/// The number of slots in a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// For each slot, the smallest number whose hexadecimal digits, as the hash tag of a key, put the
/// key into that slot.
static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = vec![None; usize::from(SLOTS)];
    let mut missing = tags.len();
    for number in 0.. {
        let tag = &mut tags[usize::from(of(&format!("{number:x}")))];
        if tag.is_none() {
            *tag = Some(number);
            missing -= 1;
        }
        if missing == 0 {
            break;
        }
    }
    tags.into_iter().flatten().collect()
});

/// Lookup table of CRC-16/XMODEM, for one byte at a time.
const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0_u16;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            let polynomial = if crc & 0x8000 == 0 { 0 } else { 0x1021 };
            crc = (crc << 1) ^ polynomial;
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

/// Returns the slot of `key`.
pub(crate) fn of(key: &str) -> u16 {
    let crc = hashed(key).bytes().fold(0_u16, |crc, byte| {
        (crc << 8) ^ TABLE[usize::from((crc >> 8) ^ u16::from(byte))]
    });
    crc % SLOTS
}

/// Returns the part of `key` that determines the slot: the text between the first `{` and the first
/// `}` after it. Returns the whole key if that text is missing or empty.
fn hashed(key: &str) -> &str {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag);
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// Returns a hash tag, braces included, that puts a key into `slot`.
pub(crate) fn tag(slot: u16) -> String {
    format!("{{{:x}}}", TAGS[usize::from(slot % SLOTS)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected slots are from `CLUSTER KEYSLOT` on Redis 7.0.15.
    #[test]
    fn hash_slots_match_those_of_the_server() {
        for (key, slot) in [
            ("", 0),
            ("123456789", 12_739),
            ("foo", 12_182),
            ("lock:order:42", 1_507),
            ("{user1000}.following", 3_443),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
            ("foo{bar}{zap}", 5_061),
            ("}a{b", 4_079),
            ("lock:{", 9_448),
            ("é{ü}", 9_552),
        ] {
            assert_eq!(of(key), slot, "{key}");
        }
    }

    #[test]
    fn every_slot_has_a_tag() {
        for slot in 0..SLOTS {
            assert_eq!(of(&format!("any:{}:more{{x}}", tag(slot))), slot);
        }
    }
}
