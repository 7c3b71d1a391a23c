//! A table of orders with a unique key, in an SQLite file that all processes open.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Row as _, SqlitePool};

/// The longest time for which a writer waits for writers of other processes.
const BUSY: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct Orders {
    table: SqlitePool,
}

impl Orders {
    pub(super) async fn create(folder: &Path) -> Self {
        let orders = Self::open(folder);
        let create = "CREATE TABLE orders (id TEXT PRIMARY KEY, body INTEGER NOT NULL)";
        let made = sqlx::query(create).execute(&orders.table).await;
        made.expect("a table can be made");
        orders
    }

    pub(super) fn open(folder: &Path) -> Self {
        let options = SqliteConnectOptions::new()
            .filename(folder.join("orders.sqlite"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Off)
            .busy_timeout(BUSY);
        let table = SqlitePoolOptions::new().max_connections(2);
        Self {
            table: table.connect_lazy_with(options),
        }
    }

    /// Inserts the order `id` for the body with the number `body`, unless an earlier body has
    /// inserted it. Returns the number of the body whose order is in the table.
    pub(super) async fn commit(&self, id: &str, body: u64) -> u64 {
        let number = i64::try_from(body).expect("a process has few bodies");
        let insert = sqlx::query("INSERT INTO orders VALUES ($1, $2) ON CONFLICT DO NOTHING");
        let insert = insert.bind(id).bind(number).execute(&self.table).await;
        insert.expect("the database serves");
        let select = sqlx::query("SELECT body FROM orders WHERE id = $1").bind(id);
        let row = select.fetch_one(&self.table).await;
        let made = row.expect("the database serves").get::<i64, _>(0);
        u64::try_from(made).unwrap_or(0)
    }

    pub(super) async fn count(&self) -> u64 {
        let count = sqlx::query("SELECT count(*) FROM orders");
        let row = count.fetch_one(&self.table).await;
        let count = row.expect("the database serves").get::<i64, _>(0);
        u64::try_from(count).unwrap_or(0)
    }
}
