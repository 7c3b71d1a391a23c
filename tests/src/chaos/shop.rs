//! A resource for locks to protect: an SQL table that checks fences as the documentation
//! recommends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold::__test::now;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Row, SqlitePool};

use super::ledger::Written;

/// The longest time that a writer waits for the table while a stopped process has a transaction
/// open.
const BUSY: Duration = Duration::from_secs(20);

/// The table, in an SQLite file that all processes open.
#[derive(Debug)]
pub(super) struct Shop {
    table: SqlitePool,
    /// True if the table compares fences.
    checked: bool,
}

impl Shop {
    /// Creates the table, with one row for each of `skus`.
    pub(super) async fn create(folder: &Path, skus: &[String]) {
        let shop = Self::open(folder, true);
        let create = "CREATE TABLE items (sku TEXT PRIMARY KEY, sold INTEGER, fence INTEGER)";
        let made = sqlx::query(create).execute(&shop.table).await;
        made.expect("a table can be made");
        for sku in skus {
            let insert = sqlx::query("INSERT INTO items VALUES ($1, 0, 0)").bind(sku);
            insert
                .execute(&shop.table)
                .await
                .expect("a row can be made");
        }
        shop.table.close().await;
    }

    pub(super) fn open(folder: &Path, checked: bool) -> Self {
        let options = SqliteConnectOptions::new()
            .filename(file(folder))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Off)
            .busy_timeout(BUSY);
        let table = SqlitePoolOptions::new().max_connections(2);
        Self {
            table: table.connect_lazy_with(options),
            checked,
        }
    }

    /// Stores `fence` in the row of the item, and returns the number of sold items. A table that
    /// compares fences returns `None` for a `fence` older than the row's. Such a table also refuses
    /// all later writes with a fence older than `fence`.
    pub(super) async fn read(&self, sku: &str, fence: i64) -> Option<u64> {
        let update =
            "UPDATE items SET fence = $1 WHERE sku = $2 AND (fence <= $1 OR $3) RETURNING sold";
        let update = sqlx::query(update)
            .bind(fence)
            .bind(sku)
            .bind(!self.checked);
        let row = update.fetch_optional(&self.table).await;
        let row = row.expect("the database serves")?;
        u64::try_from(row.get::<i64, _>(0)).ok()
    }

    /// Sets the number of sold items to `seen + 1`. If the table compares fences, it refuses a
    /// `fence` older than the row's.
    pub(super) async fn write(&self, sku: &str, fence: i64, seen: u64) -> Written {
        let sold = i64::try_from(seen + 1).expect("a small number");
        let begun = self.table.begin_with("BEGIN IMMEDIATE").await;
        let mut transaction = begun.expect("the database serves");
        let newest = sqlx::query("SELECT fence FROM items WHERE sku = $1").bind(sku);
        let newest = newest.fetch_one(&mut *transaction).await;
        let newest = newest.expect("the item has a row").get::<i64, _>(0);
        let update =
            "UPDATE items SET sold = $1, fence = $2 WHERE sku = $3 AND (fence <= $2 OR $4)";
        let update = sqlx::query(update)
            .bind(sold)
            .bind(fence)
            .bind(sku)
            .bind(!self.checked);
        let done = update
            .execute(&mut *transaction)
            .await
            .expect("the database serves");
        let at = now();
        transaction.commit().await.expect("the database serves");
        Written {
            at,
            newest: u64::try_from(newest).unwrap_or(0),
            kept: done.rows_affected() == 1,
        }
    }

    pub(super) async fn newest(&self, sku: &str) -> i64 {
        let newest = sqlx::query("SELECT fence FROM items WHERE sku = $1").bind(sku);
        let newest = newest.fetch_one(&self.table).await;
        newest.expect("the item has a row").get(0)
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("shop.sqlite")
}
