//! Every way out of an annotated function, with the locks in a real PostgreSQL.

use std::sync::{Arc, LazyLock};

use leasehold_tests::postgres::{Database, Postgres};

use super::{Store, ways_out};

/// One database for all tests of this file.
static DATABASE: LazyLock<Database> = LazyLock::new(|| Postgres::shared().migrated());

fn store() -> Store {
    Store {
        url: DATABASE.url(),
        probe: Arc::new(DATABASE.probe("lock:")),
    }
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
    the_lock_is_stolen: Stolen,
}
