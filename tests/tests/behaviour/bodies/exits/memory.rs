//! Every way out of an annotated function, with the locks in this process.

use std::sync::Arc;

use leasehold_tests::probe::MemoryProbe;

use super::{Store, ways_out};

fn store() -> Store {
    let url = "memory://exits".to_owned();
    let probe = Arc::new(MemoryProbe::new(&url));
    Store { url, probe }
}

ways_out! {
    store(),
    last_expression: LastExpression,
    early_return: EarlyReturn,
    question_mark: QuestionMark,
    owned_argument: OwnedArgument,
    panic: Panic,
    panic_in_a_task: PanicInTask,
    dropped_by_select: Select,
    dropped_by_timeout: Timeout,
    aborted: Abort,
    dropped: PlainDrop,
    dropped_while_acquiring: DroppedWhileAcquiring,
    dropped_while_queueing: DroppedWhileQueueing,
    the_lease_expires: Expired,
    the_body_outlives_the_lease: Outlived,
}
