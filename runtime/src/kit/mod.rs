//! Tests of code that takes locks, without a server and without waiting.
//!
//! For `[dev-dependencies]`:
//!
//! ```toml
//! leasehold = { version = "0.1", features = ["testing"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util"] }
//! ```
//!
//! Each [`Kit`] has a separate store, and a pool with the engine, deadlines and errors of
//! production. The kit controls the connection between them. A test can add other holders
//! ([`Kit::hold`]), losses ([`Kit::lose_when`]), outages ([`Kit::store_down`]) and delays
//! ([`Kit::delay`]), and read a history ([`Kit::history`]).
//!
//! ```
//! use std::time::Duration;
//!
//! use leasehold::testing::{Kit, Point};
//! use leasehold::{LockError, distributed_lock};
//!
//! #[distributed_lock(key = "order:<id>", ttl = "10s", watchdog)]
//! async fn create_order(id: u64) -> Result<u64, LockError> {
//!     tokio::time::sleep(Duration::from_secs(3)).await; // a service asks its database here
//!     Ok(id)
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! // In a test: `#[tokio::test(start_paused = true)]`.
//! let kit = Kit::new();
//! kit.scope(async {
//!     let other = kit.hold("order:42").await; // another process has it
//!     assert!(create_order(42).await.unwrap_err().is_contention());
//!     other.release().await;
//!     assert_eq!(create_order(42).await, Ok(42));
//!
//!     kit.lose_when("order:42", Point::AfterPolls(1)); // in the middle of the body
//!     assert!(create_order(42).await.unwrap_err().is_lost());
//!     assert!(kit.history().is_exclusive(), "{}", kit.history());
//! })
//! .await;
//! # }
//! ```
//!
//! # Time
//!
//! On a store in memory, leases are counted on the clock of the test's tokio runtime. A test that
//! pauses this clock (`start_paused = true`) does not wait: hours of leases pass in milliseconds,
//! and each run has the same order of events. Without paused time, the kit waits like production.
//! It then works on current-thread and multi-thread runtimes.
//!
//! # Parallel tests
//!
//! Kits do not share locks. So tests with the same keys can run at the same time, each with a
//! separate kit.

mod controls;
mod event;
mod history;
mod hold;
mod kit;
mod line;
mod log;
mod point;
mod store;
mod target;

pub use event::{Caller, Event, EventKind, Mode};
pub use history::History;
pub use hold::{Held, Hold};
pub use kit::Kit;
pub use point::Point;
