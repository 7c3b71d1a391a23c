//! Requirement 10: a table that checks the fence takes nothing from a holder that slept through its lease.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{Fence, LockPool};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use tokio::task::JoinSet;

use super::ground::{BOTH, Ground, Requirement, connect, runtime};
use super::sheet::Sheet;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 10,
    what: "the SQL fence recipe rejects stale writers",
    stores: BOTH,
    run,
};

const SHORT: Duration = Duration::from_millis(120);
const LONG: Duration = Duration::from_secs(30);
static ACCEPTED: AtomicU64 = AtomicU64::new(0);

fn run(ground: &Ground, sheet: &Sheet) {
    let total = ground.count(1_000, 80);
    let lanes = 40;
    let place = ground.place("sql");
    runtime(2).block_on(async {
        let pool = connect(&place.url).await;
        let options = SqliteConnectOptions::new().in_memory(true);
        let table = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(options)
            .await;
        let table = table.expect("a database in memory opens");
        let create = "CREATE TABLE items (sku TEXT PRIMARY KEY, stock INTEGER, fence INTEGER)";
        sqlx::query(create)
            .execute(&table)
            .await
            .expect("a table can be made");
        let mut tasks = JoinSet::new();
        for lane in 0..lanes {
            let (pool, table) = (pool.clone(), table.clone());
            tasks.spawn(async move {
                for number in 0..total / lanes {
                    resumed(&pool, &table, &format!("item-{lane}-{number}")).await;
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("no panic");
        }
    });
    let accepted = ACCEPTED.swap(0, Ordering::Relaxed);
    if accepted > 0 {
        sheet.inversion(format!("{accepted} stale writes were taken"));
    }
    sheet.sections(2 * total);
    sheet.faults("holder slept through its lease", total);
    sheet.reached("resumed holders", total, 1_000);
}

/// One holder sleeps through its lease, another one writes, the first wakes up and writes too.
async fn resumed(pool: &LockPool, table: &SqlitePool, sku: &str) {
    let insert = sqlx::query("INSERT INTO items VALUES ($1, 10, 0)").bind(sku);
    insert.execute(table).await.expect("a row can be made");
    let late = pool
        .lock(sku)
        .ttl(SHORT)
        .acquire()
        .await
        .expect("it is free");
    let fence = late.fence().expect("the store gives fences");
    assert!(
        write(table, sku, 9, fence).await,
        "a holder's own write is taken"
    );
    let next = pool
        .lock(sku)
        .ttl(LONG)
        .wait(LONG)
        .acquire()
        .await
        .expect("it expires");
    let newer = next.fence().expect("the store gives fences");
    assert!(
        write(table, sku, 8, newer).await,
        "the newer holder's write is taken"
    );
    if write(table, sku, 7, fence).await {
        ACCEPTED.fetch_add(1, Ordering::Relaxed);
    }
    assert!(late.release().await.is_err(), "its lease is over");
    next.release().await.expect("still held");
}

async fn write(table: &SqlitePool, sku: &str, stock: i64, fence: Fence) -> bool {
    let update = "UPDATE items SET stock = $1, fence = $2 WHERE sku = $3 AND fence <= $2";
    let update = sqlx::query(update)
        .bind(stock)
        .bind(fence.as_i64())
        .bind(sku);
    let done = update.execute(table).await.expect("the database serves");
    done.rows_affected() == 1
}
