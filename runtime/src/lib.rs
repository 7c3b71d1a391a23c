#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod call;
mod error;
mod fence;
mod guard;
mod installed;
mod key;
mod pool;
mod request;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use error::{LockError, StoreError};
pub use fence::Fence;
pub use guard::{LockGuard, LockHandle};
pub use installed::{init, init_from_env, shutdown};
pub use leasehold_macros::distributed_lock;
pub use pool::{LockPool, LockPoolBuilder, ShutdownReport};
pub use request::LockRequest;
