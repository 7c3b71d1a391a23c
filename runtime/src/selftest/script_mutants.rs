//! Script mutants: the Redis store's scripts with seeded bugs, which the tests must detect.

use std::borrow::Cow;

use super::seeded_bugs::Bug;

/// Returns the script `code` with `bug`, or unchanged if the bug does not concern this script.
pub(crate) fn spoil(code: &'static str, bug: Bug) -> Cow<'static, str> {
    let mut code = Cow::Borrowed(code);
    for (sound, broken) in changes(bug) {
        code = code.replace(sound, broken).into();
    }
    code
}

/// Returns the texts of the scripts that a bug replaces, each with its replacement.
fn changes(bug: Bug) -> &'static [(&'static str, &'static str)] {
    match bug {
        Bug::NotIdempotent => &[("value and string.sub(value, 1, 32) == token", "false")],
        Bug::FenceFromCounter => &[("time[1] .. string.sub('00000' .. time[2], -6)", "'1'")],
        Bug::ClaimReworded => &[(":claim", ":given")],
        Bug::RenewWithoutCompare => &[("string.sub(value, 1, 32) == ARGV[token]", "true")],
        Bug::RenewBySet => &[(
            "local value = values[i]\n",
            "redis.call('SET', KEYS[i], ARGV[token])\n    local value = ARGV[token]\n",
        )],
        Bug::DeleteWithoutCompare => &[
            ("string.sub(value, 1, 32) ~= ARGV[token]", "false"),
            ("string.sub(value, 1, 32) ~= ARGV[4]", "false"),
            ("string.sub(value, 1, 32) ~= ARGV[1]", "false"),
        ],
        Bug::HandOverBelieved => &[
            ("'PX', CLAIM", "'PX', 600000"),
            ("if left > CLAIM and", "if false and"),
        ],
        Bug::DeadWaiterKept => &[
            ("store(queue, line)\n      if set", "if set"),
            ("now - seen <= FORGOTTEN and seen - now <= CLAIM", "true"),
        ],
        Bug::PauseSkipped => &[("local rest = ends and ends - now or 0", "local rest = 0")],
        Bug::MarkLost => &[(
            "local mark = marks[queue] and NOBODY .. marks[queue] or ''",
            "local mark = ''",
        )],
        Bug::FutureBelieved => &[
            (" and seen - now <= CLAIM", ""),
            ("if seen > oldest then", "if false then"),
        ],
        Bug::OldClaimBelieved => &[("if left > CLAIM and", "if false and")],
        Bug::KeptTokenStays => &[
            (
                "KEPT .. string.sub(found[2 * i - 1], 33)",
                "found[2 * i - 1]",
            ),
            (
                "string.rep('0', 32) .. string.sub(found[i], 33)",
                "found[i]",
            ),
        ],
        Bug::RecordedWithoutCheck => &[
            (
                "if string.sub(redis.call('GET', KEYS[1]) or '', 1, 32) == ARGV[1] then",
                "if true then",
            ),
            ("  redis.call('PEXPIRE', KEYS[1], 1000)\n", ""),
        ],
        Bug::FunctionIgnored => &[("name == asked", "true")],
        Bug::ConstantAdopted => &[("token == string.rep('0', 32)", "false")],
        Bug::SpoiltCounterKept => &[("redis.pcall('GET', counter)", "redis.call('GET', counter)")],
        Bug::FencesInexact => &[("last + more >= 9007199254740991", "false")],
        Bug::RepeatShortened => &[("redis.call('PEXPIRE', KEYS[2 * i], ttl)", "")],
        Bug::LateReleaseServed => &[("if tonumber(ARGV[2]) < now then", "if false then")],
        Bug::RevokedIsFree => &[("redis.call('SET', key, 'r' .. value, 'PX', left)", "give()")],
        _ => changes_to_shares(bug),
    }
}

/// Returns the replacements in the code for shares and permits.
fn changes_to_shares(bug: Bug) -> &'static [(&'static str, &'static str)] {
    match bug {
        Bug::WriterUnseen => &[("local room = not value or", "local room = true or")],
        Bug::ReadersUnseen => &[(
            "if value and value ~= process .. ':claim' then",
            "if value and value ~= process .. ':claim' and not limit_of(value) then",
        )],
        Bug::ShareShortened => &[("outlast(KEYS[1], KEYS[4], now)", "")],
        Bug::ShareShortenedByRenewal => &[("if left < ttl then", "if true then")],
        Bug::EndedShareRevived => &[(
            "if not ends or tonumber(ends) <= now then",
            "if not ends then",
        )],
        Bug::ShareNeedsMemory => &[("redis.call('PEXPIRE', shares, math.max(ttl, left))\n", "")],
        Bug::DeadShareKept => &[("'-inf', string.format('%.0f', now)", "'-inf', '0'")],
        Bug::WritersPassed => &[("room = not ahead or ahead == ARGV[4]", "room = true")],
        Bug::PermitsUncounted => &[("redis.call('ZCARD', KEYS[4]) < most", "true")],
        Bug::GreatestNumberCounts => &[(
            "redis.call('ZCARD', KEYS[4]) < most",
            "redis.call('ZCARD', KEYS[4]) < math.max(limit, most)",
        )],
        Bug::KeptShareStays => &[("'kept:' .. ARGV[1]", "ARGV[1]")],
        Bug::ShareNotKept => &[(
            "redis.call('ZADD', KEYS[3], string.format('%.0f', now + ARGV[3]), 'kept:' .. ARGV[1])",
            "",
        )],
        Bug::ShareReleasesAll => &[(
            "redis.call('ZREM', KEYS[3], ARGV[1])",
            "redis.call('DEL', KEYS[3])",
        )],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::commands::scripts;

    #[test]
    fn mutated_text_exists_in_the_scripts() {
        for bug in Bug::ALL {
            for (sound, _) in changes(bug) {
                let mut known = scripts::ALL.iter().chain(&scripts::LOOKING);
                let there = known.any(|source| source.code.contains(sound));
                assert!(
                    there,
                    "no script has the text that {bug:?} changes: {sound}"
                );
            }
        }
    }
}
