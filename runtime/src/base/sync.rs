//! Synchronization types of the standard library. The models (`--cfg shuttle`, see
//! [`engine`](crate::engine)) use those of `shuttle`, which tries the possible orders of threads.

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

pub(crate) use std::sync::PoisonError;
