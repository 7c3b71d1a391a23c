#![doc = include_str!("guide/links.md")]
#![cfg_attr(doc, doc = include_str!("guide/pictures.md"))]
#![doc = include_str!("guide/readme.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(feature = "__remote"),
    allow(dead_code, reason = "memory:// uses a part of the interface of stores")
)]

mod base;
mod check_report;
mod engine;
mod error;
mod fence;
#[cfg(doc)]
pub mod guide;
mod host;
mod inspect;
mod interop;
mod key;
mod lock;
mod owner;
mod plain;
mod pool;
#[cfg(feature = "postgres")]
#[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
pub mod postgres;
mod replicas;
#[cfg(any(test, feature = "__test"))]
mod selftest;
#[cfg_attr(
    all(feature = "__remote", not(feature = "redis")),
    allow(dead_code, reason = "a part of the interface is for Redis")
)]
mod store;
#[cfg(feature = "testing")]
#[cfg_attr(docsrs, doc(cfg(feature = "testing")))]
#[path = "kit/mod.rs"]
pub mod testing;

#[doc(hidden)]
#[path = "expanded.rs"]
pub mod __private;

#[cfg(feature = "__test")]
#[doc(hidden)]
pub use selftest::probe as __test;

pub use check_report::{CheckReport, Finding, Severity};
pub use engine::core::drain::ShutdownReport;
pub use error::{LockError, StoreError};
pub use fence::Fence;
pub use inspect::info::{Holder, LockInfo, LockState, Waiter};
#[cfg(all(feature = "axum", feature = "replay"))]
#[cfg_attr(docsrs, doc(cfg(all(feature = "axum", feature = "replay"))))]
pub use interop::idempotency::{IdempotencyKey, IdempotencyKeyRejection};
pub use key::encode;
pub use leasehold_macros::distributed_lock;
pub use lock::api::handover::Handover;
pub use lock::api::request::LockRequest;
pub use lock::call::guard::{LockGuard, LockHandle};
#[cfg(feature = "replay")]
#[cfg_attr(docsrs, doc(cfg(feature = "replay")))]
pub use lock::call::observe::watch_replays;
pub use lock::nest::is_held::is_held;
pub use lock::nest::spawn::spawn;
pub use owner::Owner;
pub use pool::LockPool;
pub use pool::builder::LockPoolBuilder;
pub use pool::fairness::Fairness;
pub use pool::installed::{init, init_from_env, init_lazy, pool, shutdown};
pub use pool::look::lock_list::LockList;
pub use replicas::Replicas;
pub use store::credentials::Credentials;
