//! The commands about results that are kept beside locks, and about locks that are adopted.

use redis::Cmd;

use super::{call, call_with_room, millis, place};
use crate::store::Op;
use crate::store::redis::commands::key_names::KeyNames;
use crate::store::redis::commands::scripts::{ADOPT, RECALL, RECORD};

/// The arguments beside the result of a command that records one, and their bytes.
const ROOM: (usize, usize) = (16, 512);

pub(super) fn recall(op: &Op, names: &KeyNames, listening: bool) -> Cmd {
    let mut command = call(&RECALL, 4);
    if let Op::Recall {
        key,
        token,
        ttl,
        function,
        queue,
    } = op
    {
        command
            .arg(&*names.fences(key))
            .arg(&**key)
            .arg(names.queue(key))
            .arg(names.result(key))
            .arg(&token.digits())
            .arg(millis(*ttl))
            .arg(0)
            .arg(names.signature(function))
            .arg(place(*queue, listening))
            .arg(names.channels())
            .arg(*function);
    }
    command
}

pub(super) fn record(op: &Op, names: &KeyNames) -> Cmd {
    let Op::Record {
        key,
        token,
        keep,
        makes_way,
        record,
        ..
    } = op
    else {
        return Cmd::new();
    };
    let text = record.kept.to_text();
    let long = 3 * key.len() + text.len() + record.function.len();
    let room = (ROOM.0, ROOM.1 + long);
    let mut command = call_with_room(&RECORD, 3, room);
    command
        .arg(&**key)
        .arg(names.queue(key))
        .arg(names.result(key))
        .arg(&token.digits());
    match keep {
        Some(keep) => command.arg(millis(*keep)),
        None => command.arg(if *makes_way { "0" } else { "" }),
    };
    command
        .arg(names.channels())
        .arg(names.make_way_after())
        .arg(text)
        .arg(millis(record.stays))
        .arg(record.function);
    command
}

pub(super) fn adopt(op: &Op, names: &KeyNames) -> Cmd {
    let mut command = call(&ADOPT, 2);
    if let Op::Adopt {
        key,
        from,
        token,
        ttl,
        function,
    } = op
    {
        command
            .arg(&**key)
            .arg(names.queue(key))
            .arg(&from.digits())
            .arg(&token.digits())
            .arg(millis(*ttl))
            .arg(names.signature(function));
    }
    command
}
