//! The threads that drive the engine: callers, listeners and the keeper, around one mutex.
//!
//! One mutex protects the engine's [`state`]. Three kinds of threads take it:
//! - *A caller* executes its own command, and sends the resulting requests to the store.
//! - *A listener* waits for answers on a caller's runtime. It can wake callers of the same runtime
//!   without waking another thread. See [`lanes`].
//! - *The keeper*, a task on the engine's own [`thread`], does the due work: time-outs, renewals,
//!   removals. It waits for answers if no listener does, and takes over from a late listener.
//!
//! A thread with the mutex never blocks, and runs no code of the program. Wake-ups and reports
//! become [`notifications`], which the thread delivers after it has released the mutex.
//!
//! The system may preempt a thread that has the mutex. All other threads then wait for the mutex. A
//! preempted thread with a lower [`priority`] than the keeper may get no processor for seconds. So
//! such a thread never takes the mutex: its commands are [`deferred`] to the keeper.

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
