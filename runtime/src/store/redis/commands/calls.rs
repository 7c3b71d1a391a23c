//! The commands that call the scripts.

use std::time::Duration;

use redis::{Cmd, cmd};

use super::key_names::{AuxiliaryKey, KeyNames};
use super::redirect::RequestFlags;
use super::scripts::{
    ACQUIRE, ACQUIRE_ALL, ACQUIRE_ONE, ACQUIRE_PLAIN, JOIN, LEAVE, LuaScript, PART, RELEASE,
    RELEASE_ONE, RELEASE_PLAIN, RENEW, STAY, TURN,
};
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::store::{Op, Renewal};

mod replay;

/// The command for `op`. `listening` says whether the connection listens for this process's turns.
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
            function,
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
            .arg(names.owner(function))
            .to_owned(),
        Op::Stay(renewals) => stay(renewals, names, KeyNames::queue),
        Op::Part {
            key, token, keep, ..
        } => part(key, *token, *keep, names),
        Op::Leave { key } => call(&LEAVE, 2)
            .arg(&**key)
            .arg(names.queue(key))
            .arg(names.process())
            .arg(names.channels())
            .to_owned(),
        Op::Recall { .. } => replay::recall(op, names, listening),
        Op::Record { .. } => replay::record(op, names),
        Op::Forget { key } => cmd("DEL").arg(names.result(key)).to_owned(),
        Op::Adopt { .. } => replay::adopt(op, names),
    }
}

/// The command for a batch: requests of one kind, or the release and the acquire that end a tenure.
pub(crate) fn batch_command(
    flags: RequestFlags,
    ops: &[&Op],
    names: &KeyNames,
    listening: bool,
) -> Cmd {
    match ops {
        // To the script, a set of shares looks like an empty queue.
        [Op::Stay(renewals)] if flags.without_queue => stay(renewals, names, KeyNames::shares),
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
    let auxiliary_keys = names.have_auxiliary_keys();
    if let ([one], true) = (ops, auxiliary_keys) {
        return acquire_one(one, names, listening);
    }
    let mut command = if auxiliary_keys {
        call_with_room(&ACQUIRE, 1 + 2 * ops.len(), room(ops))
    } else {
        call_with_room(&ACQUIRE_PLAIN, ops.len(), room(ops))
    };
    // In a cluster a batch has one lock only, so one slot.
    if auxiliary_keys && let Some(Op::Acquire { key, .. }) = ops.first() {
        command.arg(&*names.fences(key));
    }
    keys(&mut command, ops, names);
    if auxiliary_keys {
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
            command.arg(millis(*ttl));
            if auxiliary_keys {
                command
                    .arg(names.owner(function))
                    .arg(place(*queue, listening))
                    .arg(*reserved_fences);
            } else {
                command.arg(names.record(function));
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

/// Each lock, with its queue where locks have queues.
fn keys(command: &mut Cmd, ops: &[&Op], names: &KeyNames) {
    for op in ops {
        if let Op::Acquire { key, .. } | Op::Release { key, .. } = op {
            command.arg(&**key);
            if names.have_auxiliary_keys() {
                command.arg(names.queue(key));
            }
        }
    }
}

/// Splits requests into groups that differ in nothing but lock and token.
fn groups<'a>(ops: &'a [&'a Op]) -> impl Iterator<Item = &'a [&'a Op]> {
    ops.chunk_by(|one, next| one.conditions() == next.conditions())
}

/// The number of requests in a group, and the token of each.
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
    // In a cluster the keys share a slot, and with it the counter.
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
    let auxiliary_keys = names.have_auxiliary_keys();
    if let ([one], true) = (ops, auxiliary_keys) {
        return release_one(one, names);
    }
    let mut command = if auxiliary_keys {
        call_with_room(&RELEASE, 2 * ops.len(), room(ops))
    } else {
        call_with_room(&RELEASE_PLAIN, ops.len(), room(ops))
    };
    keys(&mut command, ops, names);
    if auxiliary_keys {
        command.arg(names.channels()).arg(names.make_way_after());
    }
    for group in groups(ops) {
        match group.first() {
            Some(Op::Release {
                keep: Some(keep), ..
            }) => command.arg(millis(*keep)),
            Some(Op::Release {
                makes_way: true, ..
            }) if auxiliary_keys => command.arg("0"),
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

/// A release of the lock that `next` is to take, and `next` itself.
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

fn part(key: &str, token: Token, keep: Option<Duration>, names: &KeyNames) -> Cmd {
    let mut command = call(&PART, 3);
    command
        .arg(key)
        .arg(names.queue(key))
        .arg(names.shares(key))
        .arg(&token.digits())
        .arg(names.channels());
    match keep {
        Some(keep) => command.arg(millis(keep)),
        None => command.arg(""),
    };
    command
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
    command.arg("EVALSHA").arg(RENEW.hash()).arg(count);
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

fn call(script: &LuaScript, keys: usize) -> Cmd {
    call_with_room(script, keys, (0, 0))
}

/// `room` is the number of arguments to make room for, and their bytes.
fn call_with_room(script: &LuaScript, keys: usize, room: (usize, usize)) -> Cmd {
    let mut command = Cmd::with_capacity(room.0, room.1);
    command.arg("EVALSHA").arg(script.hash()).arg(keys);
    command
}

/// The room that a command about these locks usually takes: each lock has a key, a queue and a
/// token, and the rest is common to all.
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
