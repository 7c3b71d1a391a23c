//! The schema and the error codes for applications that keep their locks in PostgreSQL.

/// SQL with the tables and functions of a pool on `postgres://…`, for PostgreSQL 13 and later. Run
/// it once, as one of your migrations, or let the pool do so with `?migrate=1` at the end of its
/// URL.
///
/// The functions for your own transactions:
///
/// - `leasehold.verify(key, fence)` fails with [`LEASE_OVER`] if the lock of `key`
///   ([`full_key`](crate::LockHandle::full_key)) no longer has this fence. It also fails if the
///   lock was not taken on this primary, because a fail-over has happened since then. After a
///   successful call, no other acquisition gets the lock until the transaction has ended.
/// - `leasehold.guard(key, fence)` fails with [`STALE_FENCE`] if it has already accepted a later
///   fence of `key`. Use `guard` for locks that are kept in another store. A fence more than an
///   hour ahead of the server's clock is refused, too.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// // Write the migration for the tool that runs the application's migrations.
/// std::fs::write("migrations/0001_leasehold.sql", leasehold::postgres::SCHEMA)
/// # }
/// ```
pub const SCHEMA: &str = concat!(
    include_str!("store/postgres/sql/tables.sql"),
    include_str!("store/postgres/sql/rows.sql"),
    include_str!("store/postgres/sql/take.sql"),
    include_str!("store/postgres/sql/give.sql"),
    include_str!("store/postgres/sql/look.sql"),
    include_str!("store/postgres/sql/results.sql"),
    include_str!("store/postgres/sql/applications.sql"),
);

/// The SQLSTATE with which `leasehold.verify` fails if the lease is over, or if the lock was taken
/// before a fail-over of the server. Roll the transaction back, and repeat the whole operation
/// under a new lock.
pub const LEASE_OVER: &str = "LH001";

/// The SQLSTATE with which `leasehold.guard` fails if it has already accepted a later fence of the
/// key.
pub const STALE_FENCE: &str = "LH002";
