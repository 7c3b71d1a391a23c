//! The scripts. Each is joined from files in `../lua/`, which `README.md` there describes.

use std::borrow::Cow;
use std::sync::LazyLock;

use redis::{Cmd, Pipeline, Script, Value, cmd};

use super::failure;
use crate::store::Failure;

/// A script that runs on the server.
pub(crate) struct LuaScript {
    /// The source, with comments and indentation.
    #[cfg(test)]
    pub(crate) code: &'static str,
    pub(crate) script: Script,
    /// The source as sent, without comments and indentation.
    pub(crate) text: String,
}

impl LuaScript {
    fn new(code: &'static str) -> Self {
        let spoilt = spoilt(code);
        let lines = spoilt.lines().map(str::trim_start);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("--"));
        let text = lines.collect::<Vec<_>>().join("\n");
        Self {
            #[cfg(test)]
            code,
            script: Script::new(&text),
            text,
        }
    }

    pub(crate) fn hash(&self) -> &str {
        self.script.get_hash()
    }

    pub(crate) fn load(&self) -> Cmd {
        cmd("SCRIPT").arg("LOAD").arg(&self.text).to_owned()
    }
}

/// Declares scripts, each joined from files.
macro_rules! scripts {
    ($(#[$condition:meta])? $list:ident, $count:literal: $($name:ident = $($file:literal)+;)+) => {
        $(pub(crate) static $name: LazyLock<LuaScript> = LazyLock::new(|| {
            LuaScript::new(concat!($(include_str!(concat!("../lua/", $file))),+))
        });)+

        $(#[$condition])?
        pub(crate) static $list: [&LazyLock<LuaScript>; $count] = [$(&$name),+];
    };
}

scripts! { ALL, 16:
    ACQUIRE = "fence.lua" "acquire.lua" "claim.lua" "queue.lua" "waiting.lua" "take.lua" "acquire_queue.lua";
    ACQUIRE_ONE = "fence.lua" "acquire_one.lua" "claim.lua" "queue.lua" "waiting.lua" "take.lua" "acquire_queue.lua";
    ACQUIRE_ALL = "fence.lua" "acquire_all.lua" "queue.lua" "waiting.lua" "acquire_all_queue.lua";
    RENEW = "renew.lua";
    RELEASE = "release.lua" "queue.lua" "release_queue.lua";
    RELEASE_ONE = "release_one.lua" "queue.lua" "release_queue.lua";
    RECALL = "fence.lua" "results.lua" "recall.lua" "acquire_one.lua" "claim.lua" "queue.lua" "waiting.lua" "take.lua" "acquire_queue.lua";
    RECORD = "results.lua" "record.lua" "release_one.lua" "queue.lua" "release_queue.lua";
    ADOPT = "adopt.lua";
    TURN = "fence.lua" "queue.lua" "turn.lua" "waiting.lua" "take.lua" "turn_queue.lua";
    ACQUIRE_PLAIN = "acquire_plain.lua";
    RELEASE_PLAIN = "release_plain.lua";
    LEAVE = "queue.lua" "waiting.lua" "leave.lua";
    JOIN = "fence.lua" "queue.lua" "waiting.lua" "join.lua";
    STAY = "queue.lua" "waiting.lua" "stay.lua";
    PART = "queue.lua" "waiting.lua" "part.lua";
}

// Scripts that inspect a lock, or take it away from its holders. Pools do not load them when they
// connect: `look` loads them for each use.
scripts! { #[cfg(test)] LOOKING, 2:
    INSPECT = "queue.lua" "look.lua" "inspect.lua";
    TAKE_AWAY = "queue.lua" "waiting.lua" "look.lua" "take_away.lua";
}

#[cfg(not(any(test, all(feature = "__test", debug_assertions))))]
fn spoilt(code: &'static str) -> Cow<'static, str> {
    code.into()
}

/// Returns the script's code. If a test has switched on a seeded bug, the code has this bug.
#[cfg(any(test, all(feature = "__test", debug_assertions)))]
fn spoilt(code: &'static str) -> Cow<'static, str> {
    crate::selftest::seeded_bugs::active().map_or(code.into(), |bug| {
        crate::selftest::script_mutants::spoil(code, bug)
    })
}

/// Returns the command that asks the server which of the scripts it has.
pub(crate) fn exist() -> Cmd {
    let hashes: Vec<_> = ALL.iter().map(|source| source.hash()).collect();
    cmd("SCRIPT").arg("EXISTS").arg(hashes).to_owned()
}

/// Returns the scripts that are missing according to a server's answer to `exist`. If the server
/// refused to answer, returns all scripts.
pub(crate) fn missing(answer: Option<&Value>) -> Vec<&'static LuaScript> {
    let known: &[Value] = match answer {
        Some(Value::Array(known)) if known.len() == ALL.len() => known,
        _ => &[],
    };
    let is_missing = |at: usize| known.get(at) != Some(&Value::Int(1));
    let missing = ALL.iter().enumerate().filter(|(at, _)| is_missing(*at));
    missing.map(|(_, source)| &***source).collect()
}

/// Returns the commands that load these scripts.
pub(crate) fn load(sources: &[&LuaScript]) -> Pipeline {
    let mut pipeline = Pipeline::new();
    for source in sources {
        pipeline.add_command(source.load());
    }
    pipeline
}

/// Fails unless `answers` show that the server has loaded these scripts.
pub(crate) fn check_loaded(sources: &[&LuaScript], answers: Vec<Value>) -> Result<(), Failure> {
    let is_hash = |(answer, source): (&Value, &&LuaScript)| matches!(answer, Value::BulkString(hash) if hash == source.hash().as_bytes());
    if answers.len() == sources.len() && answers.iter().zip(sources).all(is_hash) {
        return Ok(());
    }
    let refused = answers.into_iter().find_map(|answer| match answer {
        Value::ServerError(error) => Some(failure::broken(&error.into())),
        _ => None,
    });
    Err(refused.unwrap_or_else(|| failure::garbage("an unexpected reply to SCRIPT LOAD")))
}
