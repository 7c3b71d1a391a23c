//! The commands that call the scripts.

use std::time::Duration;

use super::key_names::{AuxiliaryKey, KeyNames};
use super::outgoing::{Command, Outgoing};
use super::redirect::RequestFlags;
use super::scripts::{
    ACQUIRE, ACQUIRE_ALL, ACQUIRE_ONE, ACQUIRE_PLAIN, JOIN, LEAVE, PART, RELEASE, RELEASE_ONE,
    RELEASE_PLAIN, RENEW, STAY, TURN,
};
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::store::{Op, Renewal};

mod replay;

/// Adds the command for `op` to `out`. `listening` is true if the connection listens for this
/// process's turns.
pub(crate) fn command(op: &Op, names: &KeyNames, listening: bool, out: &mut Outgoing) {
    match op {
        Op::Acquire { .. } => acquire(&[op], names, listening, out),
        Op::AcquireAll {
            keys,
            ttl,
            function,
        } => acquire_all(keys, *ttl, function, names, out),
        Op::Release { .. } => release(&[op], names, out),
        Op::Renew(renewals) => renew(renewals, out),
        Op::Join {
            key,
            token,
            ttl,
            function,
            limit,
            queue,
        } => {
            out.call(&JOIN, 4)
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
                .arg(names.owner(function));
        }
        Op::Stay(renewals) => stay(renewals, names, KeyNames::queue, out),
        Op::Part {
            key, token, keep, ..
        } => part(key, *token, *keep, names, out),
        Op::Leave { key } => {
            out.call(&LEAVE, 2)
                .arg(&**key)
                .arg(names.queue(key))
                .arg(names.process())
                .arg(names.channels());
        }
        Op::Recall { .. } => replay::recall(op, names, listening, out),
        Op::Record { .. } => replay::record(op, names, out),
        Op::Forget { key } => {
            out.command("DEL").arg(names.result(key));
        }
        Op::Adopt { .. } => replay::adopt(op, names, out),
    }
}

/// Adds the command for a batch to `out`: requests of one kind, or a release and an acquire of the
/// same lock.
pub(crate) fn batch_command(
    flags: RequestFlags,
    ops: &[&Op],
    names: &KeyNames,
    listening: bool,
    out: &mut Outgoing,
) {
    match ops {
        // The set of shares takes the place of the queue, because to the script it looks like an
        // empty queue.
        [Op::Stay(renewals)] if flags.without_queue => stay(renewals, names, KeyNames::shares, out),
        [
            Op::Release { key, token, .. },
            next @ Op::Acquire { key: wanted, .. },
        ] if key == wanted => turn(*token, next, names, listening, out),
        [Op::Acquire { .. }, ..] => acquire(ops, names, listening, out),
        [Op::Release { .. }, ..] => release(ops, names, out),
        [op, ..] => command(op, names, listening, out),
        [] => {}
    }
}

/// Adds the command for acquires in the order of [`Op::conditions`].
fn acquire(ops: &[&Op], names: &KeyNames, listening: bool, out: &mut Outgoing) {
    let auxiliary_keys = names.have_auxiliary_keys();
    if let ([one], true) = (ops, auxiliary_keys) {
        return acquire_one(one, names, listening, out);
    }
    let mut command = if auxiliary_keys {
        out.call(&ACQUIRE, 1 + 2 * ops.len())
    } else {
        out.call(&ACQUIRE_PLAIN, ops.len())
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
}

fn acquire_one(op: &Op, names: &KeyNames, listening: bool, out: &mut Outgoing) {
    let mut command = out.call(&ACQUIRE_ONE, 3);
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
}

/// Adds each lock, with its queue if locks have queues.
fn keys(command: &mut Command<'_>, ops: &[&Op], names: &KeyNames) {
    for op in ops {
        if let Op::Acquire { key, .. } | Op::Release { key, .. } = op {
            command.arg(&**key);
            if names.have_auxiliary_keys() {
                command.arg(names.queue(key));
            }
        }
    }
}

/// Splits requests into groups that differ only in lock and token.
fn groups<'a>(ops: &'a [&'a Op]) -> impl Iterator<Item = &'a [&'a Op]> {
    ops.chunk_by(|one, next| one.conditions() == next.conditions())
}

/// Adds the number of requests in a group, and the token of each.
fn tokens(command: &mut Command<'_>, group: &[&Op]) {
    command.arg(group.len());
    for op in group {
        if let Op::Acquire { token, .. } | Op::Release { token, .. } = op {
            command.arg(&token.digits());
        }
    }
}

fn acquire_all(
    keys: &[(FullKey, Token)],
    ttl: Duration,
    function: &str,
    names: &KeyNames,
    out: &mut Outgoing,
) {
    let mut command = out.call(&ACQUIRE_ALL, 1 + 2 * keys.len());
    // In a cluster the keys share a slot, and so they share the counter of that slot.
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
}

/// Returns the argument for queuing: empty without a queue, `+` for a process that listens for its
/// turn, `-` for one that does not.
fn place(queue: bool, listening: bool) -> &'static str {
    match (queue, listening) {
        (false, _) => "",
        (true, true) => "+",
        (true, false) => "-",
    }
}

/// Returns the largest number of fences that a lock needs beside its first.
fn fences(ops: &[&Op]) -> u32 {
    let each = ops.iter().map(|op| match op {
        Op::Acquire {
            reserved_fences, ..
        } => *reserved_fences,
        _ => 0,
    });
    each.max().unwrap_or_default()
}

/// Adds the command for releases in the order of [`Op::conditions`].
fn release(ops: &[&Op], names: &KeyNames, out: &mut Outgoing) {
    let auxiliary_keys = names.have_auxiliary_keys();
    if let ([one], true) = (ops, auxiliary_keys) {
        return release_one(one, names, out);
    }
    let mut command = if auxiliary_keys {
        out.call(&RELEASE, 2 * ops.len())
    } else {
        out.call(&RELEASE_PLAIN, ops.len())
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
}

fn release_one(op: &Op, names: &KeyNames, out: &mut Outgoing) {
    let mut command = out.call(&RELEASE_ONE, 2);
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
}

/// Adds the command that releases a lock and then takes it for `next`.
fn turn(released: Token, next: &Op, names: &KeyNames, listening: bool, out: &mut Outgoing) {
    let mut command = out.call(&TURN, 3);
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
}

fn part(key: &str, token: Token, keep: Option<Duration>, names: &KeyNames, out: &mut Outgoing) {
    let mut command = out.call(&PART, 3);
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
}

fn stay(
    renewals: &[Renewal],
    names: &KeyNames,
    queue: for<'a> fn(&'a KeyNames, &'a str) -> AuxiliaryKey<'a>,
    out: &mut Outgoing,
) {
    let mut command = out.call(&STAY, 3 * renewals.len());
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
}

fn renew(renewals: &[Renewal], out: &mut Outgoing) {
    let mut command = out.call(&RENEW, renewals.len());
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
}

fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}
