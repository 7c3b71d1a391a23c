//! Synchronization types of the standard library. The models of the engine (`--cfg shuttle`, see
//! [`engine`](crate::engine)) replace them by those of `shuttle`, which tries many schedules of the
//! threads.

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

pub(crate) use std::sync::PoisonError;
