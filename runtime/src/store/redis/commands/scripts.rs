//! The scripts, each made of files in `../lua/`; its `README.md` is their index.

use std::borrow::Cow;
use std::sync::LazyLock;

use redis::{Pipeline, Script, Value, cmd};

use super::failure;
use crate::store::Failure;

/// Joins files into one script.
macro_rules! script {
    ($($file:literal)+) => {
        concat!($(include_str!(concat!("../lua/", $file))),+)
    };
}

const ACQUIRE_CODE: &str = script!("fence.lua" "acquire.lua" "claim.lua" "queue.lua" "waiting.lua" "take.lua" "acquire_queue.lua");
const ACQUIRE_ONE_CODE: &str = script!("fence.lua" "acquire_one.lua" "claim.lua" "queue.lua" "waiting.lua" "take.lua" "acquire_queue.lua");
const ACQUIRE_ALL_CODE: &str =
    script!("fence.lua" "acquire_all.lua" "queue.lua" "waiting.lua" "acquire_all_queue.lua");
const RECALL_CODE: &str = script!("fence.lua" "results.lua" "recall.lua" "acquire_one.lua" "claim.lua" "queue.lua" "waiting.lua" "take.lua" "acquire_queue.lua");
const RENEW_CODE: &str = script!("renew.lua");
const RELEASE_CODE: &str = script!("release.lua" "queue.lua" "release_queue.lua");
const RELEASE_ONE_CODE: &str = script!("release_one.lua" "queue.lua" "release_queue.lua");
const RECORD_CODE: &str =
    script!("results.lua" "record.lua" "release_one.lua" "queue.lua" "release_queue.lua");
const ADOPT_CODE: &str = script!("adopt.lua");
const TURN_CODE: &str =
    script!("fence.lua" "queue.lua" "turn.lua" "waiting.lua" "take.lua" "turn_queue.lua");
const ACQUIRE_PLAIN_CODE: &str = script!("acquire_plain.lua");
const RELEASE_PLAIN_CODE: &str = script!("release_plain.lua");
const LEAVE_CODE: &str = script!("queue.lua" "waiting.lua" "leave.lua");
const JOIN_CODE: &str = script!("fence.lua" "queue.lua" "waiting.lua" "join.lua");
const STAY_CODE: &str = script!("queue.lua" "waiting.lua" "stay.lua");
const PART_CODE: &str = script!("queue.lua" "waiting.lua" "part.lua");
/// What looks at a lock, and what takes it away from its holders. No pool loads them.
pub(crate) const INSPECT_CODE: &str = script!("queue.lua" "look.lua" "inspect.lua");
pub(crate) const TAKE_AWAY_CODE: &str =
    script!("queue.lua" "waiting.lua" "look.lua" "take_away.lua");

/// The scripts that no pool loads.
#[cfg(test)]
pub(crate) const LOOKING: [&str; 2] = [INSPECT_CODE, TAKE_AWAY_CODE];

pub(super) static ACQUIRE: LazyLock<Script> = LazyLock::new(|| Script::new(&code(ACQUIRE_CODE)));
pub(super) static ACQUIRE_ONE: LazyLock<Script> =
    LazyLock::new(|| Script::new(&code(ACQUIRE_ONE_CODE)));
pub(super) static ACQUIRE_ALL: LazyLock<Script> =
    LazyLock::new(|| Script::new(&code(ACQUIRE_ALL_CODE)));
pub(super) static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(&code(RENEW_CODE)));
pub(super) static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(&code(RELEASE_CODE)));
pub(super) static RELEASE_ONE: LazyLock<Script> =
    LazyLock::new(|| Script::new(&code(RELEASE_ONE_CODE)));
pub(super) static RECALL: LazyLock<Script> = LazyLock::new(|| Script::new(&code(RECALL_CODE)));
pub(super) static RECORD: LazyLock<Script> = LazyLock::new(|| Script::new(&code(RECORD_CODE)));
pub(super) static ADOPT: LazyLock<Script> = LazyLock::new(|| Script::new(&code(ADOPT_CODE)));
pub(super) static TURN: LazyLock<Script> = LazyLock::new(|| Script::new(&code(TURN_CODE)));
pub(super) static ACQUIRE_PLAIN: LazyLock<Script> =
    LazyLock::new(|| Script::new(&code(ACQUIRE_PLAIN_CODE)));
pub(super) static RELEASE_PLAIN: LazyLock<Script> =
    LazyLock::new(|| Script::new(&code(RELEASE_PLAIN_CODE)));
pub(super) static LEAVE: LazyLock<Script> = LazyLock::new(|| Script::new(&code(LEAVE_CODE)));

pub(super) static JOIN: LazyLock<Script> = LazyLock::new(|| Script::new(&code(JOIN_CODE)));
pub(super) static STAY: LazyLock<Script> = LazyLock::new(|| Script::new(&code(STAY_CODE)));
pub(super) static PART: LazyLock<Script> = LazyLock::new(|| Script::new(&code(PART_CODE)));

pub(crate) fn all() -> [(&'static Script, &'static str); 16] {
    [
        (&ACQUIRE, ACQUIRE_CODE),
        (&ACQUIRE_ONE, ACQUIRE_ONE_CODE),
        (&ACQUIRE_ALL, ACQUIRE_ALL_CODE),
        (&RENEW, RENEW_CODE),
        (&RELEASE, RELEASE_CODE),
        (&RELEASE_ONE, RELEASE_ONE_CODE),
        (&RECALL, RECALL_CODE),
        (&RECORD, RECORD_CODE),
        (&ADOPT, ADOPT_CODE),
        (&TURN, TURN_CODE),
        (&ACQUIRE_PLAIN, ACQUIRE_PLAIN_CODE),
        (&RELEASE_PLAIN, RELEASE_PLAIN_CODE),
        (&LEAVE, LEAVE_CODE),
        (&JOIN, JOIN_CODE),
        (&STAY, STAY_CODE),
        (&PART, PART_CODE),
    ]
}

#[cfg(not(any(test, all(feature = "__test", debug_assertions))))]
pub(crate) fn code(code: &'static str) -> Cow<'static, str> {
    code.into()
}

/// The script, with the bug that a test has seeded.
#[cfg(any(test, all(feature = "__test", debug_assertions)))]
pub(crate) fn code(code: &'static str) -> Cow<'static, str> {
    crate::selftest::seeded_bugs::active().map_or(code.into(), |bug| {
        crate::selftest::script_mutants::spoil(code, bug)
    })
}

/// Loads all scripts.
pub(crate) fn load() -> Pipeline {
    let mut pipeline = Pipeline::new();
    for (_, code) in all() {
        pipeline.add_command(cmd("SCRIPT").arg("LOAD").arg(&*self::code(code)).to_owned());
    }
    pipeline
}

/// The failure if `answers` are not those of a server that has loaded all scripts.
pub(crate) fn check_loaded(answers: Vec<Value>) -> Result<(), Failure> {
    if loaded(&answers) {
        return Ok(());
    }
    let refused = answers.into_iter().find_map(|answer| match answer {
        Value::ServerError(error) => Some(failure::broken(&error.into())),
        _ => None,
    });
    Err(refused.unwrap_or_else(|| failure::garbage("another answer than asked for")))
}

fn loaded(answers: &[Value]) -> bool {
    let hash = |answer: &Value, script: &Script| matches!(answer, Value::BulkString(hash) if hash == script.get_hash().as_bytes());
    answers.len() == all().len()
        && answers
            .iter()
            .zip(all())
            .all(|(answer, (script, _))| hash(answer, script))
}
