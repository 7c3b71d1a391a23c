//! The scripts of version 0.1.0, as its processes load them.

use redis::{Cmd, Connection, cmd};

/// Concatenates files into one script.
macro_rules! script {
    ($sha1:literal, $($file:literal)+) => {
        Script {
            source: concat!($(include_str!(concat!("../../wire/v0_1_0/", $file))),+),
            sha1: $sha1,
        }
    };
}

/// A script, and its hash on the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Script {
    source: &'static str,
    sha1: &'static str,
}

impl Script {
    /// Starts a command that calls the script. The caller must add `keys` keys.
    pub(super) fn call(self, keys: usize) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(self.sha1).arg(keys);
        call
    }
}

pub(super) const ACQUIRE: Script = script!("08510941d6fb7fb59b0f0738eb3b5508aa5ccb4c",
    "fence.lua" "acquire.lua" "claim.lua" "queue.lua" "waiting.lua" "take.lua" "acquire_queue.lua");
pub(super) const ACQUIRE_ALL: Script = script!("9d3cb1e94b123b5ae22faf7b7375f3e813f079f0",
    "fence.lua" "acquire_all.lua" "queue.lua" "waiting.lua" "acquire_all_queue.lua");
pub(super) const RENEW: Script = script!("1210cc1648e60f4aafc8823da80e1e0a8c6bd9c3", "renew.lua");
pub(super) const RELEASE: Script = script!("ed91e7c0637cb14afe9b446a1478979bdbd3b5e5",
    "release.lua" "queue.lua" "release_queue.lua");
pub(super) const TURN: Script = script!("bac78b7ee7e819ea8d51e068b919c5e756f127a0",
    "fence.lua" "queue.lua" "turn.lua" "waiting.lua" "take.lua" "turn_queue.lua");
pub(super) const LEAVE: Script = script!("7ab1facc22e1009eaae65c1c9d11b11faf5d7c1e",
    "queue.lua" "waiting.lua" "leave.lua");
pub(super) const JOIN: Script = script!("8846160ca332ce109f111d2ffa25e9566b768757",
    "fence.lua" "queue.lua" "waiting.lua" "join.lua");
pub(super) const STAY: Script = script!("a0aee1c2a3d8c295886b4a634238b6e839172459",
    "queue.lua" "waiting.lua" "stay.lua");
pub(super) const PART: Script = script!("2df3669a9d4bc2b49646d1b3739992ef1dcffeba",
    "queue.lua" "waiting.lua" "part.lua");

const ALL: [Script; 9] = [
    ACQUIRE,
    ACQUIRE_ALL,
    RENEW,
    RELEASE,
    TURN,
    LEAVE,
    JOIN,
    STAY,
    PART,
];

/// Loads all scripts.
///
/// # Panics
///
/// Panics if the server reports another hash for a script, because the copies then differ from
/// version 0.1.0.
pub(super) fn load(connection: &mut Connection) {
    for script in ALL {
        let mut load = cmd("SCRIPT");
        let loaded = load
            .arg("LOAD")
            .arg(script.source)
            .query::<String>(connection);
        let name = loaded.expect("the server takes scripts");
        assert_eq!(name, script.sha1, "tests/wire/v0_1_0 has been changed");
    }
}
