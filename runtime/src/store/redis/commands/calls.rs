//! Commands that call the scripts.

use std::time::Duration;

use super::batch::Conditions;
use super::key_names::{AuxiliaryKey, KeyNames};
use super::outgoing::{Command, Outgoing};
use super::redirect::RequestFlags;
use super::scripts::{
    ACQUIRE, ACQUIRE_ALL, ACQUIRE_ONE, ACQUIRE_PLAIN, JOIN, LEAVE, PART, RELEASE, RELEASE_ONE,
    RELEASE_PLAIN, RENEW, STAY, TURN,
};
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::store::{Give, GiveKind, Op, Renewal, Take, TakeKind};

mod replay;

/// Adds the command for `op` to `out`. `listening` is true if the connection listens for messages
/// to this process.
pub(crate) fn command(op: &Op, names: &KeyNames, listening: bool, out: &mut Outgoing) {
    match op {
        Op::Take(take) => match take.kind {
            TakeKind::Lock { .. } => acquire(&[op], names, listening, out),
            TakeKind::Share { limit } => join(take, limit, names, listening, out),
            TakeKind::Recall => replay::recall(take, names, listening, out),
        },
        Op::TakeAll {
            keys,
            ttl,
            function,
        } => acquire_all(keys, *ttl, function, names, out),
        Op::Keep { renewals, shares } if *shares => stay(renewals, names, KeyNames::queue, out),
        Op::Keep { renewals, .. } => renew(renewals, out),
        Op::Give(give) => match &give.kind {
            GiveKind::Lock => release(&[op], names, out),
            GiveKind::Share => part(give, names, out),
            GiveKind::Record(record) => replay::record(give, record, names, out),
        },
        Op::Leave { key } => {
            out.call(&LEAVE, 2)
                .arg(&**key)
                .arg(names.queue(key))
                .arg(names.process())
                .arg(names.channels());
        }
        Op::Forget { key } => {
            out.command("DEL").arg(names.result(key));
        }
        Op::Adopt { .. } => replay::adopt(op, names, out),
    }
}

/// Adds the command for a batch to `out`. The batch has requests of one kind, or a release and an
/// acquire of the same lock.
pub(crate) fn batch_command(
    flags: RequestFlags,
    ops: &[&Op],
    names: &KeyNames,
    listening: bool,
    out: &mut Outgoing,
) {
    match ops {
        // Renews shares while their slot moves. The script requires the key of a queue, but that
        // key may be on another node. So the script gets the key of the shares instead. The type of
        // its value is not that of a queue, so the script treats it as an empty queue.
        [
            Op::Keep {
                renewals,
                shares: true,
            },
        ] if flags.without_queue => stay(renewals, names, KeyNames::shares, out),
        [op] => command(op, names, listening, out),
        [Op::Give(give), Op::Take(next)] if give.key == next.key => {
            turn(give.token, next, names, listening, out);
        }
        [Op::Take(_), ..] => acquire(ops, names, listening, out),
        [Op::Give(_), ..] => release(ops, names, out),
        _ => {}
    }
}

/// Adds the command for acquires, which must be sorted by their [`Conditions`].
fn acquire(ops: &[&Op], names: &KeyNames, listening: bool, out: &mut Outgoing) {
    let auxiliary_keys = names.have_auxiliary_keys();
    if let ([Op::Take(one)], true) = (ops, auxiliary_keys) {
        return acquire_one(one, names, listening, out);
    }
    let mut command = if auxiliary_keys {
        out.call(&ACQUIRE, 1 + 2 * ops.len())
    } else {
        out.call(&ACQUIRE_PLAIN, ops.len())
    };
    // The fence counter of the first lock serves all locks of the batch. Outside a cluster, all
    // locks share one counter. In a cluster, the batch has only one lock.
    if auxiliary_keys && let Some(Op::Take(Take { key, .. })) = ops.first() {
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
        if let Some(Op::Take(take)) = group.first() {
            command.arg(millis(take.ttl));
            if auxiliary_keys {
                command
                    .arg(names.owner(take.function))
                    .arg(place(take.queue, listening))
                    .arg(take.kind.reserved_fences());
            } else {
                command.arg(names.record(take.function));
            }
        }
        tokens(&mut command, group);
    }
}

fn acquire_one(take: &Take, names: &KeyNames, listening: bool, out: &mut Outgoing) {
    out.call(&ACQUIRE_ONE, 3)
        .arg(&*names.fences(&take.key))
        .arg(&*take.key)
        .arg(names.queue(&take.key))
        .arg(&take.token.digits())
        .arg(millis(take.ttl))
        .arg(take.kind.reserved_fences())
        .arg(names.signature(take.function))
        .arg(place(take.queue, listening))
        .arg(names.channels());
}

fn join(take: &Take, limit: u32, names: &KeyNames, listening: bool, out: &mut Outgoing) {
    out.call(&JOIN, 4)
        .arg(&*take.key)
        .arg(&*names.fences(&take.key))
        .arg(names.queue(&take.key))
        .arg(names.shares(&take.key))
        .arg(&take.token.digits())
        .arg(millis(take.ttl))
        .arg(limit)
        .arg(names.process())
        .arg(place(take.queue, listening))
        .arg(names.channels())
        .arg(names.owner(take.function));
}

/// Adds the key of each lock, followed by the key of its queue if locks have queues.
fn keys(command: &mut Command<'_>, ops: &[&Op], names: &KeyNames) {
    for op in ops {
        for key in op.keys() {
            command.arg(&**key);
            if names.have_auxiliary_keys() {
                command.arg(names.queue(key));
            }
        }
    }
}

/// Splits requests into groups. The requests of a group differ only in lock and token.
fn groups<'a>(ops: &'a [&'a Op]) -> impl Iterator<Item = &'a [&'a Op]> {
    ops.chunk_by(|one, next| Conditions::of(one) == Conditions::of(next))
}

/// Adds the number of requests in a group, and the token of each.
fn tokens(command: &mut Command<'_>, group: &[&Op]) {
    command.arg(group.len());
    for op in group {
        if let Op::Take(Take { token, .. }) | Op::Give(Give { token, .. }) = op {
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
    // One fence counter serves all locks of the namespace, or in a cluster all locks of a slot. In
    // a cluster, all keys of this command are in one slot.
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

/// Returns the argument for queuing: empty for a call that does not queue, `+` for a process that
/// listens for messages, `-` for one that does not.
fn place(queue: bool, listening: bool) -> &'static str {
    match (queue, listening) {
        (false, _) => "",
        (true, true) => "+",
        (true, false) => "-",
    }
}

/// Returns the largest number of reserved fences that one of the locks needs.
fn fences(ops: &[&Op]) -> u32 {
    let each = ops.iter().map(|op| match op {
        Op::Take(take) => take.kind.reserved_fences(),
        _ => 0,
    });
    each.max().unwrap_or_default()
}

/// Adds the command for releases, which must be sorted by their [`Conditions`].
fn release(ops: &[&Op], names: &KeyNames, out: &mut Outgoing) {
    let auxiliary_keys = names.have_auxiliary_keys();
    if let ([Op::Give(one)], true) = (ops, auxiliary_keys) {
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
        if let Some(Op::Give(give)) = group.first() {
            kept_for(&mut command, give.keep, give.makes_way && auxiliary_keys);
        }
        tokens(&mut command, group);
    }
}

fn release_one(give: &Give, names: &KeyNames, out: &mut Outgoing) {
    let mut command = out.call(&RELEASE_ONE, 2);
    command
        .arg(&*give.key)
        .arg(names.queue(&give.key))
        .arg(&give.token.digits());
    kept_for(&mut command, give.keep, give.makes_way);
    command.arg(names.channels()).arg(names.make_way_after());
}

/// Adds the time for which a release keeps the lock: empty for a release that removes the lock, `0`
/// for one that leaves the lock free for clients that do not use the queue.
fn kept_for(command: &mut Command<'_>, keep: Option<Duration>, makes_way: bool) {
    match keep {
        Some(keep) => command.arg(millis(keep)),
        None => command.arg(if makes_way { "0" } else { "" }),
    };
}

/// Adds the command that releases a lock and then takes it for `next`.
fn turn(released: Token, next: &Take, names: &KeyNames, listening: bool, out: &mut Outgoing) {
    out.call(&TURN, 3)
        .arg(&*names.fences(&next.key))
        .arg(&*next.key)
        .arg(names.queue(&next.key))
        .arg(names.process())
        .arg(names.channels())
        .arg(next.kind.reserved_fences())
        .arg(&released.digits())
        .arg(&next.token.digits())
        .arg(millis(next.ttl))
        .arg(names.owner(next.function))
        .arg(place(next.queue, listening))
        .arg(names.make_way_after());
}

fn part(give: &Give, names: &KeyNames, out: &mut Outgoing) {
    let mut command = out.call(&PART, 3);
    command
        .arg(&*give.key)
        .arg(names.queue(&give.key))
        .arg(names.shares(&give.key))
        .arg(&give.token.digits())
        .arg(names.channels());
    kept_for(&mut command, give.keep, false);
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
