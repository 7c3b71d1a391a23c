//! The scripts, and the commands that call them.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Pipeline, Script, Value, cmd};

use super::key_names::{AuxiliaryKey, KeyNames};
use super::redirect::RequestFlags;
use super::reply;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::store::{Failure, Op, Renewal};

/// Files that make one script.
macro_rules! script {
    ($($file:literal)+) => {
        concat!($(include_str!(concat!("../lua/", $file))),+)
    };
}

const ACQUIRE_CODE: &str = script!("fence.lua" "acquire.lua" "claim.lua" "queue.lua" "waiting.lua" "take.lua" "acquire_queue.lua");
const ACQUIRE_ONE_CODE: &str = script!("fence.lua" "acquire_one.lua" "claim.lua" "queue.lua" "waiting.lua" "take.lua" "acquire_queue.lua");
const ACQUIRE_ALL_CODE: &str =
    script!("fence.lua" "acquire_all.lua" "queue.lua" "waiting.lua" "acquire_all_queue.lua");
const RENEW_CODE: &str = script!("renew.lua");
const RELEASE_CODE: &str = script!("release.lua" "queue.lua" "release_queue.lua");
const RELEASE_ONE_CODE: &str = script!("release_one.lua" "queue.lua" "release_queue.lua");
const TURN_CODE: &str =
    script!("fence.lua" "queue.lua" "turn.lua" "waiting.lua" "take.lua" "turn_queue.lua");
const ACQUIRE_PLAIN_CODE: &str = script!("acquire_plain.lua");
const RELEASE_PLAIN_CODE: &str = script!("release_plain.lua");
const LEAVE_CODE: &str = script!("queue.lua" "waiting.lua" "leave.lua");
const JOIN_CODE: &str = script!("fence.lua" "queue.lua" "waiting.lua" "join.lua");
const STAY_CODE: &str = script!("queue.lua" "waiting.lua" "stay.lua");
const PART_CODE: &str = script!("queue.lua" "waiting.lua" "part.lua");

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| Script::new(&code(ACQUIRE_CODE)));
static ACQUIRE_ONE: LazyLock<Script> = LazyLock::new(|| Script::new(&code(ACQUIRE_ONE_CODE)));
static ACQUIRE_ALL: LazyLock<Script> = LazyLock::new(|| Script::new(&code(ACQUIRE_ALL_CODE)));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(&code(RENEW_CODE)));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(&code(RELEASE_CODE)));
static RELEASE_ONE: LazyLock<Script> = LazyLock::new(|| Script::new(&code(RELEASE_ONE_CODE)));
static TURN: LazyLock<Script> = LazyLock::new(|| Script::new(&code(TURN_CODE)));
static ACQUIRE_PLAIN: LazyLock<Script> = LazyLock::new(|| Script::new(&code(ACQUIRE_PLAIN_CODE)));
static RELEASE_PLAIN: LazyLock<Script> = LazyLock::new(|| Script::new(&code(RELEASE_PLAIN_CODE)));
static LEAVE: LazyLock<Script> = LazyLock::new(|| Script::new(&code(LEAVE_CODE)));

static JOIN: LazyLock<Script> = LazyLock::new(|| Script::new(&code(JOIN_CODE)));
static STAY: LazyLock<Script> = LazyLock::new(|| Script::new(&code(STAY_CODE)));
static PART: LazyLock<Script> = LazyLock::new(|| Script::new(&code(PART_CODE)));

pub(crate) fn all() -> [(&'static Script, &'static str); 13] {
    [
        (&ACQUIRE, ACQUIRE_CODE),
        (&ACQUIRE_ONE, ACQUIRE_ONE_CODE),
        (&ACQUIRE_ALL, ACQUIRE_ALL_CODE),
        (&RENEW, RENEW_CODE),
        (&RELEASE, RELEASE_CODE),
        (&RELEASE_ONE, RELEASE_ONE_CODE),
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

/// The script with the bug that a test has seeded.
#[cfg(any(test, all(feature = "__test", debug_assertions)))]
pub(crate) fn code(code: &'static str) -> Cow<'static, str> {
    crate::testing::seeded_bugs::active().map_or(code.into(), |bug| {
        crate::testing::script_mutants::spoil(code, bug)
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

/// What is wrong if these are not the answers of a server that has loaded all scripts.
pub(crate) fn check_loaded(answers: Vec<Value>) -> Result<(), Failure> {
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
pub(crate) fn command(op: &Op, names: &KeyNames, listening: bool) -> Cmd {
    match op {
        Op::Acquire { .. } => acquire(&[op], names, listening),
        Op::AcquireAll {
            keys,
            ttl,
            function,
        } => acquire_all(keys, *ttl, function, names),
        Op::Release { .. } => release(&[op], names),
        Op::Renew(renewals) => renew(renewals),
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
            .arg(&token.digits())
            .arg(millis(*ttl))
            .arg(*limit)
            .arg(names.process())
            .arg(place(*queue, listening))
            .arg(names.channels())
            .to_owned(),
        Op::Stay(renewals) => stay(renewals, names, KeyNames::queue),
        Op::Part { key, token, .. } => part(key, *token, names),
        Op::Leave { key } => call(&LEAVE, 2)
            .arg(&**key)
            .arg(names.queue(key))
            .arg(names.process())
            .arg(names.channels())
            .to_owned(),
    }
}

/// The command for requests that leave together: of one kind, or a turn's end.
pub(crate) fn together(
    manner: RequestFlags,
    ops: &[&Op],
    names: &KeyNames,
    listening: bool,
) -> Cmd {
    match ops {
        // To the script, a set of shares is a queue without anybody in it.
        [Op::Stay(renewals)] if manner.without_queue => stay(renewals, names, KeyNames::shares),
        [
            Op::Release { key, token, .. },
            next @ Op::Acquire { key: wanted, .. },
        ] if key == wanted => turn(*token, next, names, listening),
        [Op::Acquire { .. }, ..] => acquire(ops, names, listening),
        [Op::Release { .. }, ..] => release(ops, names),
        [op, ..] => command(op, names, listening),
        [] => Cmd::new(),
    }
}

/// The requests in the order of [`Op::conditions`].
fn acquire(ops: &[&Op], names: &KeyNames, listening: bool) -> Cmd {
    let companions = names.have_companions();
    if let ([one], true) = (ops, companions) {
        return acquire_one(one, names, listening);
    }
    let mut command = if companions {
        call_with_room(&ACQUIRE, 1 + 2 * ops.len(), room(ops))
    } else {
        call_with_room(&ACQUIRE_PLAIN, ops.len(), room(ops))
    };
    // In a cluster there is but one.
    if companions && let Some(Op::Acquire { key, .. }) = ops.first() {
        command.arg(&*names.fences(key));
    }
    keys(&mut command, ops, names);
    if companions {
        command
            .arg(names.process())
            .arg(names.channels())
            .arg(fences(ops));
    }
    for group in groups(ops) {
        if let Some(Op::Acquire {
            ttl,
            function,
            queue,
            reserved_fences,
            ..
        }) = group.first()
        {
            command.arg(millis(*ttl)).arg(names.owner(function));
            if companions {
                command.arg(place(*queue, listening)).arg(*reserved_fences);
            }
        }
        tokens(&mut command, group);
    }
    command
}

fn acquire_one(op: &Op, names: &KeyNames, listening: bool) -> Cmd {
    let mut command = call_with_room(&ACQUIRE_ONE, 3, room(&[op]));
    if let Op::Acquire {
        key,
        token,
        ttl,
        function,
        queue,
        reserved_fences,
    } = op
    {
        command
            .arg(&*names.fences(key))
            .arg(&**key)
            .arg(names.queue(key))
            .arg(&token.digits())
            .arg(millis(*ttl))
            .arg(*reserved_fences)
            .arg(names.signature(function))
            .arg(place(*queue, listening))
            .arg(names.channels());
    }
    command
}

/// Each lock, with its queue where there are any.
fn keys(command: &mut Cmd, ops: &[&Op], names: &KeyNames) {
    for op in ops {
        if let Op::Acquire { key, .. } | Op::Release { key, .. } = op {
            command.arg(&**key);
            if names.have_companions() {
                command.arg(names.queue(key));
            }
        }
    }
}

/// Requests that differ in nothing but lock and token.
fn groups<'a>(ops: &'a [&'a Op]) -> impl Iterator<Item = &'a [&'a Op]> {
    ops.chunk_by(|one, next| one.conditions() == next.conditions())
}

/// How many they are, and the token of each.
fn tokens(command: &mut Cmd, group: &[&Op]) {
    command.arg(group.len());
    for op in group {
        if let Op::Acquire { token, .. } | Op::Release { token, .. } = op {
            command.arg(&token.digits());
        }
    }
}

fn acquire_all(keys: &[(FullKey, Token)], ttl: Duration, function: &str, names: &KeyNames) -> Cmd {
    let mut command = call(&ACQUIRE_ALL, 1 + 2 * keys.len());
    // In a cluster they share a slot, and with it the counter.
    for (first, _) in keys.iter().take(1) {
        command.arg(&*names.fences(first));
    }
    for (key, _) in keys {
        command.arg(&**key).arg(names.queue(key));
    }
    command
        .arg(names.process())
        .arg(names.channels())
        .arg(millis(ttl))
        .arg(names.owner(function));
    for (_, token) in keys {
        command.arg(&token.digits());
    }
    command
}

/// How a process queues.
fn place(queue: bool, listening: bool) -> &'static str {
    match (queue, listening) {
        (false, _) => "",
        (true, true) => "+",
        (true, false) => "-",
    }
}

/// How many fences more than one a lock may need.
fn fences(ops: &[&Op]) -> u32 {
    let each = ops.iter().map(|op| match op {
        Op::Acquire {
            reserved_fences, ..
        } => *reserved_fences,
        _ => 0,
    });
    each.max().unwrap_or_default()
}

/// The requests in the order of [`Op::conditions`].
fn release(ops: &[&Op], names: &KeyNames) -> Cmd {
    let companions = names.have_companions();
    if let ([one], true) = (ops, companions) {
        return release_one(one, names);
    }
    let mut command = if companions {
        call_with_room(&RELEASE, 2 * ops.len(), room(ops))
    } else {
        call_with_room(&RELEASE_PLAIN, ops.len(), room(ops))
    };
    keys(&mut command, ops, names);
    if companions {
        command.arg(names.channels()).arg(names.make_way_after());
    }
    for group in groups(ops) {
        match group.first() {
            Some(Op::Release {
                keep: Some(keep), ..
            }) => command.arg(millis(*keep)),
            Some(Op::Release {
                makes_way: true, ..
            }) if companions => command.arg("0"),
            _ => command.arg(""),
        };
        tokens(&mut command, group);
    }
    command
}

fn release_one(op: &Op, names: &KeyNames) -> Cmd {
    let mut command = call_with_room(&RELEASE_ONE, 2, room(&[op]));
    if let Op::Release {
        key,
        token,
        keep,
        makes_way,
        ..
    } = op
    {
        command
            .arg(&**key)
            .arg(names.queue(key))
            .arg(&token.digits());
        match keep {
            Some(keep) => command.arg(millis(*keep)),
            None => command.arg(if *makes_way { "0" } else { "" }),
        };
        command.arg(names.channels()).arg(names.make_way_after());
    }
    command
}

/// A release of the lock that `next` is to take, and that.
fn turn(released: Token, next: &Op, names: &KeyNames, listening: bool) -> Cmd {
    let mut command = call(&TURN, 3);
    if let Op::Acquire {
        key,
        token,
        ttl,
        function,
        queue,
        reserved_fences,
    } = next
    {
        command
            .arg(&*names.fences(key))
            .arg(&**key)
            .arg(names.queue(key))
            .arg(names.process())
            .arg(names.channels())
            .arg(*reserved_fences)
            .arg(&released.digits())
            .arg(&token.digits())
            .arg(millis(*ttl))
            .arg(names.owner(function))
            .arg(place(*queue, listening))
            .arg(names.make_way_after());
    }
    command
}

fn part(key: &str, token: Token, names: &KeyNames) -> Cmd {
    call(&PART, 3)
        .arg(key)
        .arg(names.queue(key))
        .arg(names.shares(key))
        .arg(&token.digits())
        .arg(names.channels())
        .to_owned()
}

fn stay(
    renewals: &[Renewal],
    names: &KeyNames,
    queue: for<'a> fn(&'a KeyNames, &'a str) -> AuxiliaryKey<'a>,
) -> Cmd {
    let mut command = call(&STAY, 3 * renewals.len());
    for Renewal { key, .. } in renewals {
        command
            .arg(&**key)
            .arg(queue(names, key))
            .arg(names.shares(key));
    }
    command.arg(names.channels());
    for renewal in renewals {
        command
            .arg(&renewal.token.digits())
            .arg(millis(renewal.ttl));
    }
    command
}

fn renew(renewals: &[Renewal]) -> Cmd {
    let keys: usize = renewals.iter().map(|renewal| renewal.key.len()).sum();
    let count = renewals.len();
    let mut command = Cmd::with_capacity(5 + 2 * count, keys + (2 + count) * Token::DIGITS);
    command.arg("EVALSHA").arg(RENEW.get_hash()).arg(count);
    for renewal in renewals {
        command.arg(&*renewal.key);
    }
    for group in renewals.chunk_by(|one, next| one.ttl == next.ttl) {
        command
            .arg(group.first().map(|renewal| millis(renewal.ttl)))
            .arg(group.len());
        for renewal in group {
            command.arg(&renewal.token.digits());
        }
    }
    command
}

fn call(script: &Script, keys: usize) -> Cmd {
    call_with_room(script, keys, (0, 0))
}

/// With room for so many arguments, and so many bytes of them.
fn call_with_room(script: &Script, keys: usize, room: (usize, usize)) -> Cmd {
    let mut command = Cmd::with_capacity(room.0, room.1);
    command.arg("EVALSHA").arg(script.get_hash()).arg(keys);
    command
}

/// What a command about these locks usually takes: each has a key, a queue and a token, and the rest is common to them.
fn room(ops: &[&Op]) -> (usize, usize) {
    const COMMON: (usize, usize) = (16, 256);
    const PREFIX: usize = 32;
    let bytes = ops.iter().map(|op| match op {
        Op::Acquire { key, .. } | Op::Release { key, .. } => 2 * key.len() + PREFIX + Token::DIGITS,
        _ => 0,
    });
    (COMMON.0 + 3 * ops.len(), COMMON.1 + bytes.sum::<usize>())
}

fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}
