//! The commands for kept results, and for adopted locks.

use super::{millis, place};
use crate::store::Op;
use crate::store::redis::commands::key_names::KeyNames;
use crate::store::redis::commands::outgoing::Outgoing;
use crate::store::redis::commands::scripts::{ADOPT, RECALL, RECORD};

pub(super) fn recall(op: &Op, names: &KeyNames, listening: bool, out: &mut Outgoing) {
    let mut command = out.call(&RECALL, 4);
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
}

pub(super) fn record(op: &Op, names: &KeyNames, out: &mut Outgoing) {
    let Op::Record {
        key,
        token,
        keep,
        makes_way,
        record,
        ..
    } = op
    else {
        return;
    };
    let text = record.kept.to_text();
    let mut command = out.call(&RECORD, 3);
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
}

pub(super) fn adopt(op: &Op, names: &KeyNames, out: &mut Outgoing) {
    let mut command = out.call(&ADOPT, 2);
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
}
