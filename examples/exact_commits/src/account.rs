//! An account in PostgreSQL, updated with Diesel under a lock in the same database.

use std::time::Duration;

use diesel::prelude::{ExpressionMethods as _, QueryDsl as _};
use diesel::result::Error;
use diesel::sql_types::{BigInt, Text};
use diesel_async::{
    AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _,
};
use leasehold::{Fence, LockError, LockHandle, LockPool, distributed_lock};

diesel::table! {
    #[sql_name = "leasehold_example_accounts"]
    accounts (id) {
        id -> BigInt,
        balance -> BigInt,
    }
}

/// Reasons for a failed addition.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddError {
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The lease ended too early. Repeat the whole call, which then reads the account again.
    #[error("the lease on the account was over before the commit")]
    LeaseOver,
    #[error("the database: {0}")]
    Database(Error),
}

impl From<Error> for AddError {
    /// Converts an error of the database. Recognizes an error of `verify` by the name of a
    /// constraint, because Diesel does not expose the SQLSTATE.
    fn from(error: Error) -> Self {
        match &error {
            Error::DatabaseError(_, violation)
                if violation.constraint_name() == Some("leasehold_verify") =>
            {
                Self::LeaseOver
            }
            _ => Self::Database(error),
        }
    }
}

/// Adds one to an account, with pauses before and inside the transaction. Returns true if the lease
/// is over after the commit.
///
/// The lease is short on purpose. `on_lost = "continue"` lets the body continue after the end of
/// the lease, like after a pause of the process. If `verifies` is true, the transaction calls
/// `leasehold.verify`. It then commits before another holder gets the lock, or not at all.
#[distributed_lock(key = "account:<account>", ttl = "100ms", wait = "2s", on_lost = "continue", guard = lock, pool = pool)]
pub(crate) async fn add(
    pool: &LockPool,
    db: &mut AsyncPgConnection,
    account: i64,
    [before, inside]: [Duration; 2],
    verifies: bool,
) -> Result<bool, AddError> {
    tokio::time::sleep(before).await;
    db.transaction(async |db| {
        if verifies {
            verify(db, &lock).await?;
        }
        let old: i64 = accounts::table
            .find(account)
            .select(accounts::balance)
            .first(db)
            .await?;
        tokio::time::sleep(inside).await;
        diesel::update(accounts::table.find(account))
            .set(accounts::balance.eq(old + 1))
            .execute(db)
            .await?;
        Ok::<_, AddError>(())
    })
    .await?;
    Ok(lock.check().is_err())
}

/// Returns an error if the lease of `lock` is over. After a success, no other call gets the lock
/// until the transaction has ended.
async fn verify(db: &mut AsyncPgConnection, lock: &LockHandle) -> Result<(), Error> {
    diesel::sql_query("SELECT leasehold.verify($1, $2)")
        .bind::<Text, _>(lock.full_key())
        .bind::<BigInt, _>(lock.fence().map_or(0, Fence::as_i64))
        .execute(db)
        .await?;
    Ok(())
}

/// Drops the table and creates it again, with `count` empty accounts.
pub(crate) async fn open_accounts(db: &mut AsyncPgConnection, count: i64) -> Result<(), Error> {
    db.batch_execute(
        "DROP TABLE IF EXISTS leasehold_example_accounts;
         CREATE TABLE leasehold_example_accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)",
    )
    .await?;
    let empty: Vec<_> = (0..count)
        .map(|id| (accounts::id.eq(id), accounts::balance.eq(0)))
        .collect();
    diesel::insert_into(accounts::table)
        .values(empty)
        .execute(db)
        .await?;
    Ok(())
}

pub(crate) async fn total(db: &mut AsyncPgConnection) -> Result<i64, Error> {
    let balances: Vec<i64> = accounts::table.select(accounts::balance).load(db).await?;
    Ok(balances.into_iter().sum())
}
