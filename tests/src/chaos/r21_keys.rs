//! Requirement 21: different arguments never give the same key.

use std::collections::HashMap;

use leasehold::__private::{Key, key_part};

use super::ground::{BOTH, Ground, Requirement};
use super::sheet::Sheet;
use crate::random::Random;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 21,
    what: "key encoding is injective",
    stores: BOTH,
    run,
};

/// Characters with a special meaning in a key, characters of its percent-encodings (`%25`, `%3A`),
/// and some others.
const ALPHABET: [char; 14] = [
    ':', '%', '{', '}', '2', '5', '3', 'A', 'a', ' ', '\n', '\u{a0}', '日', '-',
];

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(1_000_000, 50_000);
    let mut random = ground.random(21);
    let mut keys: HashMap<String, [String; 2]> = HashMap::new();
    for _ in 0..total {
        let pair = [text(&mut random), text(&mut random)];
        let mut key = Key::new();
        key.literal("order:");
        key_part(&mut key, "tenant", &pair[0]);
        key.literal(":{");
        key_part(&mut key, "id", &pair[1]);
        key.literal("}");
        // The `Debug` texts are compared, because they show the whole key in quotes.
        let known = keys
            .entry(format!("{key:?}"))
            .or_insert_with(|| pair.clone());
        sheet.check(*known == pair, || {
            format!("{known:?} and {pair:?} give {key:?}")
        });
    }
    sheet.reached("pairs", total, 1_000_000);
    sheet.remark(format!("{} different keys", keys.len()));
}

fn text(random: &mut Random) -> String {
    let length = 1 + random.below(4);
    let one = |_| ALPHABET[usize::try_from(random.below(14)).unwrap_or(0)];
    (0..length).map(one).collect()
}
