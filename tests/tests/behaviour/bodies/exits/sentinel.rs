//! Every way in which an annotated function can end, with the locks on a master that a real
//! Sentinel names.

use std::sync::{Arc, LazyLock};

use leasehold_tests::stores;

use super::{Store, ways_out};

static STORE: LazyLock<Store> = LazyLock::new(|| {
    let store = stores::Store::sentinel("lock");
    Store {
        url: store.url,
        probe: Arc::clone(&store.probe),
    }
});

ways_out! {
    *STORE,
    the_lock_is_stolen: Stolen,
}
