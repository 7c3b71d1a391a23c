//! The scripts, and the commands that call them.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Pipeline, Script, Value, cmd};

use super::reply;
use crate::key::RESERVED;
use crate::store::{Failure, Op, Renewal};
use crate::token::Token;

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| Script::new(&acquire_code()));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(&renew_code()));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(&release_code()));

fn all() -> [(&'static Script, Cow<'static, str>); 3] {
    [
        (&ACQUIRE, acquire_code()),
        (&RENEW, renew_code()),
        (&RELEASE, release_code()),
    ]
}

fn acquire_code() -> Cow<'static, str> {
    code(include_str!("acquire.lua"))
}

fn renew_code() -> Cow<'static, str> {
    code(include_str!("renew.lua"))
}

fn release_code() -> Cow<'static, str> {
    code(include_str!("release.lua"))
}

#[cfg(not(any(test, all(feature = "__test", debug_assertions))))]
fn code(code: &'static str) -> Cow<'static, str> {
    code.into()
}

/// The script with the bug that a test has seeded.
#[cfg(any(test, all(feature = "__test", debug_assertions)))]
fn code(code: &'static str) -> Cow<'static, str> {
    use crate::seeded::{Bug, active};

    let (sound, broken) = match active() {
        Some(Bug::NotIdempotent) => ("string.sub(value, 1, 32) ~= ARGV[1]", "true"),
        Some(Bug::FenceFromCounter) => ("time[1] * 1000000 + time[2]", "0"),
        Some(Bug::RenewWithoutCompare) => ("string.sub(value, 1, 32) == ARGV[2 * i - 1]", "true"),
        Some(Bug::RenewBySet) => (
            "if type(value)",
            "redis.call('SET', key, ARGV[2 * i - 1]); if true or type(value)",
        ),
        Some(Bug::DeleteWithoutCompare) => ("string.sub(value, 1, 32) == ARGV[1]", "true"),
        _ => return code.into(),
    };
    code.replace(sound, broken).into()
}

/// Loads all scripts.
pub(super) fn load() -> Pipeline {
    let mut pipeline = Pipeline::new();
    for (_, code) in all() {
        pipeline.add_command(cmd("SCRIPT").arg("LOAD").arg(&*code).to_owned());
    }
    pipeline
}

/// What is wrong if these are not the answers of a server that has loaded all scripts.
pub(super) fn check_loaded(answers: Vec<Value>) -> Result<(), Failure> {
    if loaded(&answers) {
        return Ok(());
    }
    let refused = answers.into_iter().find_map(|answer| match answer {
        Value::ServerError(error) => Some(reply::broken(&error.into())),
        _ => None,
    });
    Err(refused.unwrap_or_else(|| reply::garbage("another answer than asked for")))
}

fn loaded(answers: &[Value]) -> bool {
    let hash = |answer: &Value, script: &Script| matches!(answer, Value::BulkString(hash) if hash == script.get_hash().as_bytes());
    answers.len() == all().len()
        && answers
            .iter()
            .zip(all())
            .all(|(answer, (script, _))| hash(answer, script))
}

/// The key of the namespace's fence counter: one, however many locks there are.
pub(super) fn fence_key(namespace: &str) -> String {
    if namespace.is_empty() {
        format!("{RESERVED}:fence")
    } else {
        format!("{namespace}:{RESERVED}:fence")
    }
}

/// The command for `op`.
pub(super) fn command(op: &Op, fence_key: &str) -> Cmd {
    match op {
        Op::Acquire {
            key,
            token,
            ttl,
            owner,
        } => call(&ACQUIRE, 2)
            .arg(&**key)
            .arg(fence_key)
            .arg(token.hex())
            .arg(millis(*ttl))
            .arg(&**owner)
            .to_owned(),
        Op::Renew(renewals) => renew(renewals),
        Op::Release { key, token, .. } => release(key, *token),
    }
}

pub(super) fn release(key: &str, token: Token) -> Cmd {
    call(&RELEASE, 1).arg(key).arg(token.hex()).to_owned()
}

fn renew(renewals: &[Renewal]) -> Cmd {
    let mut command = call(&RENEW, renewals.len());
    for renewal in renewals {
        command.arg(&*renewal.key);
    }
    for renewal in renewals {
        command.arg(renewal.token.hex()).arg(millis(renewal.ttl));
    }
    command
}

fn call(script: &Script, keys: usize) -> Cmd {
    let mut command = cmd("EVALSHA");
    command.arg(script.get_hash()).arg(keys);
    command
}

fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}
