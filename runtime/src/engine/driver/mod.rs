//! The threads that work the engine: callers, listeners and the keeper, around one mutex.
//!
//! An engine's state is a [`state`] behind one mutex. Any thread may work it:
//! - *A caller* takes up its own command, and writes what that asks of the store.
//! - *A listener* hears of answers on a caller's runtime. Its callers are told on the thread that
//!   is awake already; those of other runtimes wake theirs. See [`lanes`].
//! - *The keeper*, a task on a [`thread`] of the engine's own, does what is due: time-outs,
//!   renewals, removals. It hears of answers where no listener does, and takes over from one that
//!   is late.
//!
//! A thread that has the mutex blocks on nothing and runs no code of the program. What is to be told
//! becomes [`notifications`], and is told once the mutex is free. The system may preempt a thread that has
//! the mutex, and then all wait. A thread of lower [`priority`] than the keeper may wait for a
//! processor for seconds. So it never takes the mutex: its commands are [`deferred`] to the keeper,
//! and the [`relay`] stands between the two.

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
mod priority;
mod relay;
mod shared;
mod state;
mod store_waker;
pub(crate) mod thread;
mod timer;
mod traffic;
