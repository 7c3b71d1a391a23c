#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod call;
mod check;
mod clock;
mod counted;
mod detach;
mod engine;
mod error;
mod fence;
mod few;
mod full_key;
mod gate;
mod guard;
mod hold;
mod installed;
mod interop;
mod key;
mod lease;
mod locks;
mod path;
mod pool;
mod replicas;
mod reporter;
mod request;
mod seeded;
mod site;
#[cfg_attr(
    not(feature = "redis"),
    allow(
        dead_code,
        unused_variables,
        clippy::needless_pass_by_value,
        clippy::unused_async,
        reason = "memory:// uses a part of the interface"
    )
)]
mod store;
mod sync;
mod take;
mod taken;
mod token;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

#[cfg(feature = "__test")]
#[doc(hidden)]
pub mod __test;

pub use check::{CheckReport, Finding, Severity};
pub use error::{LockError, StoreError};
pub use fence::Fence;
pub use guard::{LockGuard, LockHandle};
pub use installed::{init, init_from_env, pool, shutdown};
pub use key::encode;
pub use leasehold_macros::distributed_lock;
pub use pool::{LockPool, LockPoolBuilder, ShutdownReport};
pub use replicas::Replicas;
pub use request::LockRequest;
