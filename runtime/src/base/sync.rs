//! What threads share: the standard library's, or in the models (`--cfg shuttle`, see
//! [`engine`](crate::engine)) that of `shuttle`, which tries the orders in which threads can run.

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::{Mutex, MutexGuard, atomic},
    thread,
};
#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::{Mutex, MutexGuard, atomic},
    thread,
};

pub(crate) use std::sync::PoisonError;
