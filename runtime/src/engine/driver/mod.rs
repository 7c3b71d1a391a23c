//! The threads that drive the engine: callers, listeners and the keeper, around one mutex.
//!
//! One mutex protects the engine's [`state`]. Three kinds of threads take it:
//! - *A caller* executes its own command, and sends the requests that follow to the store.
//! - *A listener* listens for answers on a caller's runtime. It wakes the callers of that runtime
//!   on a thread already awake. For callers of other runtimes it wakes another thread. See
//!   [`lanes`].
//! - *The keeper*, a task on the engine's own [`thread`], does the due work: time-outs, renewals,
//!   removals. It listens for answers if no listener does, and takes over from a late listener.
//!
//! A thread with the mutex blocks on nothing and runs no code of the program. Wake-ups and reports
//! become [`notifications`], which the thread delivers once the mutex is free.
//!
//! The system may preempt a thread with the mutex, and then all other threads wait. A thread of
//! lower [`priority`] than the keeper may wait for a processor for seconds. So it never takes the
//! mutex: its commands are [`deferred`] to the keeper.

mod alarms;
pub(crate) mod command;
mod deferred;
pub(crate) mod handle;
mod keeper;
mod lanes;
mod listener;
#[cfg(all(test, shuttle))]
mod model;
mod notifications;
pub(crate) mod observer;
mod priority;
mod shared;
mod standing;
mod state;
mod store_waker;
pub(crate) mod thread;
mod timer;
mod traffic;
