//! The commands for kept results, and for adopted locks.

use super::{kept_for, millis, place};
use crate::store::kept::Record;
use crate::store::redis::commands::key_names::KeyNames;
use crate::store::redis::commands::outgoing::Outgoing;
use crate::store::redis::commands::scripts::{ADOPT, RECALL, RECORD};
use crate::store::{Give, Op, Take};

pub(super) fn recall(take: &Take, names: &KeyNames, listening: bool, out: &mut Outgoing) {
    out.call(&RECALL, 4)
        .arg(&*names.fences(&take.key))
        .arg(&*take.key)
        .arg(names.queue(&take.key))
        .arg(names.result(&take.key))
        .arg(&take.token.digits())
        .arg(millis(take.ttl))
        .arg(0)
        .arg(names.signature(take.function))
        .arg(place(take.queue, listening))
        .arg(names.channels())
        .arg(take.function);
}

pub(super) fn record(give: &Give, record: &Record, names: &KeyNames, out: &mut Outgoing) {
    let text = record.kept.to_text();
    let mut command = out.call(&RECORD, 3);
    command
        .arg(&*give.key)
        .arg(names.queue(&give.key))
        .arg(names.result(&give.key))
        .arg(&give.token.digits());
    kept_for(&mut command, give.keep, give.makes_way);
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
