//! Every way in which an annotated function can end, with the locks in a real PostgreSQL.

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
    the_lock_is_stolen: Stolen,
}
