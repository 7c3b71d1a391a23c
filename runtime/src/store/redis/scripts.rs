//! The scripts, and the commands that call them.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Pipeline, Script, Value, cmd};

use super::names::Names;
use super::redirect::Manner;
use super::reply;
use crate::store::{Failure, Op, Renewal};
use crate::token::Token;

/// A script together with the functions of the queue.
macro_rules! with_queue {
    ($file:literal) => {
        concat!(include_str!("queue.lua"), include_str!($file))
    };
}

const ACQUIRE_CODE: &str = with_queue!("acquire.lua");
const RENEW_CODE: &str = include_str!("renew.lua");
const RELEASE_CODE: &str = with_queue!("release.lua");
const LEAVE_CODE: &str = with_queue!("leave.lua");
const JOIN_CODE: &str = with_queue!("join.lua");
const STAY_CODE: &str = with_queue!("stay.lua");
const PART_CODE: &str = with_queue!("part.lua");

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| Script::new(&code(ACQUIRE_CODE)));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(&code(RENEW_CODE)));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(&code(RELEASE_CODE)));
static LEAVE: LazyLock<Script> = LazyLock::new(|| Script::new(&code(LEAVE_CODE)));

static JOIN: LazyLock<Script> = LazyLock::new(|| Script::new(&code(JOIN_CODE)));
static STAY: LazyLock<Script> = LazyLock::new(|| Script::new(&code(STAY_CODE)));
static PART: LazyLock<Script> = LazyLock::new(|| Script::new(&code(PART_CODE)));

fn all() -> [(&'static Script, &'static str); 7] {
    [
        (&ACQUIRE, ACQUIRE_CODE),
        (&RENEW, RENEW_CODE),
        (&RELEASE, RELEASE_CODE),
        (&LEAVE, LEAVE_CODE),
        (&JOIN, JOIN_CODE),
        (&STAY, STAY_CODE),
        (&PART, PART_CODE),
    ]
}

#[cfg(not(any(test, all(feature = "__test", debug_assertions))))]
fn code(code: &'static str) -> Cow<'static, str> {
    code.into()
}

/// The script with the bug that a test has seeded.
#[cfg(any(test, all(feature = "__test", debug_assertions)))]
fn code(code: &'static str) -> Cow<'static, str> {
    use crate::seeded::{Bug, active};

    let changes: &[(&str, &str)] = match active() {
        Some(Bug::NotIdempotent) => &[("value and string.sub(value, 1, 32) == ARGV[1]", "false")],
        Some(Bug::FenceFromCounter) => &[("time[1] * 1000000 + time[2]", "0")],
        Some(Bug::RenewWithoutCompare) => {
            &[("string.sub(value, 1, 32) == ARGV[2 * i - 1]", "true")]
        }
        Some(Bug::RenewBySet) => &[(
            "local value = redis.pcall('GET', key)\n",
            "redis.call('SET', key, ARGV[2 * i - 1])\n  local value = ARGV[2 * i - 1]\n",
        )],
        Some(Bug::DeleteWithoutCompare) => &[("string.sub(value, 1, 32) ~= ARGV[1]", "false")],
        Some(Bug::HandOffBelieved) => &[("'PX', CLAIM", "'PX', 600000")],
        Some(Bug::DeadWaiterKept) => &[
            ("store(queue, line)\n      return", "return"),
            ("now - seen <= FORGOTTEN", "true"),
        ],
        _ => &[],
    };
    let mut code = Cow::Borrowed(code);
    for (sound, broken) in changes {
        code = code.replace(sound, broken).into();
    }
    code
}

/// Loads all scripts.
pub(super) fn load() -> Pipeline {
    let mut pipeline = Pipeline::new();
    for (_, code) in all() {
        pipeline.add_command(cmd("SCRIPT").arg("LOAD").arg(&*self::code(code)).to_owned());
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

/// The command for `op` on a connection that listens for this process's turns, or does not.
pub(super) fn command(op: &Op, names: &Names, listening: bool) -> Cmd {
    match op {
        Op::Acquire {
            key,
            token,
            ttl,
            owner,
            queue,
            spare,
        } => call(&ACQUIRE, 4)
            .arg(&**key)
            .arg(&*names.fences(key))
            .arg(names.queue(key))
            .arg(names.shares(key))
            .arg(token.hex())
            .arg(millis(*ttl))
            .arg(&**owner)
            .arg(names.process())
            .arg(place(*queue, listening))
            .arg(*spare)
            .arg(names.channels())
            .to_owned(),
        Op::Renew(renewals) => renew(renewals),
        Op::Release {
            key, token, keep, ..
        } => release(key, *token, *keep, names),
        Op::Join {
            key,
            token,
            ttl,
            limit,
            queue,
        } => call(&JOIN, 4)
            .arg(&**key)
            .arg(&*names.fences(key))
            .arg(names.queue(key))
            .arg(names.shares(key))
            .arg(token.hex())
            .arg(millis(*ttl))
            .arg(*limit)
            .arg(names.process())
            .arg(place(*queue, listening))
            .arg(names.channels())
            .to_owned(),
        Op::Stay(renewals) => stay(renewals, names, Names::queue),
        Op::Part { key, token, .. } => part(key, *token, names),
        Op::Leave { key } => call(&LEAVE, 2)
            .arg(&**key)
            .arg(names.queue(key))
            .arg(names.process())
            .arg(names.channels())
            .to_owned(),
    }
}

/// The same, put in a certain manner.
pub(super) fn command_in(manner: Manner, op: &Op, names: &Names, listening: bool) -> Cmd {
    match op {
        // To the script, a set of shares is a queue without anybody in it.
        Op::Stay(renewals) if manner.without_queue => stay(renewals, names, Names::shares),
        op => command(op, names, listening),
    }
}

/// How a process queues.
fn place(queue: bool, listening: bool) -> &'static str {
    match (queue, listening) {
        (false, _) => "",
        (true, true) => "+",
        (true, false) => "-",
    }
}

fn release(key: &str, token: Token, keep: Option<Duration>, names: &Names) -> Cmd {
    let mut command = call(&RELEASE, 2);
    command
        .arg(key)
        .arg(names.queue(key))
        .arg(token.hex())
        .arg(names.channels());
    if let Some(keep) = keep {
        command.arg(millis(keep));
    }
    command
}

fn part(key: &str, token: Token, names: &Names) -> Cmd {
    call(&PART, 3)
        .arg(key)
        .arg(names.queue(key))
        .arg(names.shares(key))
        .arg(token.hex())
        .arg(names.channels())
        .to_owned()
}

fn stay(renewals: &[Renewal], names: &Names, queue: fn(&Names, &str) -> String) -> Cmd {
    let mut command = call(&STAY, 3 * renewals.len());
    for Renewal { key, .. } in renewals {
        command
            .arg(&**key)
            .arg(queue(names, key))
            .arg(names.shares(key));
    }
    command.arg(names.channels());
    terms(&mut command, renewals);
    command
}

/// Each token with its ttl.
fn terms(command: &mut Cmd, renewals: &[Renewal]) {
    for renewal in renewals {
        command.arg(renewal.token.hex()).arg(millis(renewal.ttl));
    }
}

fn renew(renewals: &[Renewal]) -> Cmd {
    let mut command = call(&RENEW, renewals.len());
    for renewal in renewals {
        command.arg(&*renewal.key);
    }
    terms(&mut command, renewals);
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
