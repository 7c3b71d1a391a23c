//! Every way in which an annotated function can end, with the locks in this process.

use std::sync::Arc;

use leasehold_tests::probe::MemoryProbe;

use super::{Store, ways_out};

fn store() -> Store {
    let url = "memory://exits".to_owned();
    let probe = Arc::new(MemoryProbe::new(&url));
    Store { url, probe }
}

ways_out! { store() }
