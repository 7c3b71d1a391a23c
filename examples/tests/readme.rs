//! Compiles and runs the code in the tables of the README and of `docs/attribute.md`, because no
//! documentation test does.

use std::sync::Arc;

use leasehold::{LockError, LockPool, distributed_lock};

const README: &str = include_str!("../../README.md");
const ATTRIBUTE: &str = include_str!("../../docs/attribute.md");
const THIS_FILE: &str = include_str!("readme.rs");

#[distributed_lock(key = "order:<id>", ttl = "10s", watchdog)]
async fn create_order(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "item:<sku>", ttl = "10s", wait = "5s", guard = lock)]
async fn sell(sku: &str) -> Result<(), LockError> {
    lock.check()
}

/// A stand-in for axum's `Path`.
struct Path<T>(T);

#[distributed_lock(key = "cart:<id>", ttl = "10s")]
async fn check_out(Path(id): Path<u64>) -> Result<(), LockError> {
    Ok(())
}

struct NewOrder {
    id: &'static str,
}

#[distributed_lock(key = "order:<order.id>", ttl = "10s")]
async fn place(order: NewOrder) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "job:invoices", ttl = "30s", watchdog, max_hold = "1h")]
async fn send_invoices() -> Result<(), LockError> {
    Ok(())
}

struct Warehouse {
    region: &'static str,
    locks: LockPool,
}

impl Warehouse {
    #[distributed_lock(key = "stock:<self.region>:<sku>", ttl = "10s", pool = self.locks)]
    async fn take(&self, sku: &str) -> Result<(), LockError> {
        Ok(())
    }
}

#[distributed_lock(key = "cache:<name>", ttl = "5s", on_error = skipped)]
async fn refresh(name: &str) -> bool {
    true
}

fn skipped(_: LockError) -> bool {
    false
}

#[distributed_lock(key = "payment:<order>", ttl = "10s", cooldown = "3s")]
async fn pay_once(order: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = ["account:<from>", "account:<to>"], ttl = "10s", wait = "2s")]
async fn transfer(from: u64, to: u64) -> Result<(), LockError> {
    charge_fee(from).await
}

#[distributed_lock(key = "account:<id>", ttl = "10s", reentrant)]
async fn charge_fee(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "catalog:<name>", ttl = "10s", wait = "2s", shared)]
async fn show(name: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "partner:<name>", ttl = "30s", wait = "10s", permits = 3)]
async fn ask(name: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:<id>", ttl = "10s", watchdog, detach)]
async fn pay(shop: Arc<Shop>, id: u64) -> Result<(), LockError> {
    drop(shop);
    Ok(())
}

struct Shop;

#[distributed_lock(key = "report:<day>", ttl = "1m", on_lost = "continue", guard = lock)]
async fn report(day: u32) -> Result<(), LockError> {
    lock.check()
}

#[tokio::test]
async fn the_functions_in_the_table_run_inside_their_locks() {
    let locks = LockPool::connect("memory://readme")
        .await
        .expect("it is in memory");
    let warehouse = Warehouse {
        region: "eu",
        locks: locks.clone(),
    };
    let all = async {
        create_order(42).await?;
        sell("kettle").await?;
        check_out(Path(42)).await?;
        place(NewOrder { id: "42" }).await?;
        send_invoices().await?;
        warehouse.take("kettle").await?;
        assert!(refresh("prices").await);
        pay_once(42).await?;
        let again = pay_once(42).await;
        assert!(again.is_err_and(|error| error.is_contention()));
        transfer(7, 3).await?;
        show("books").await?;
        ask("bank").await?;
        pay(Arc::new(Shop), 42).await?;
        report(7).await
    };
    locks.scope(all).await.expect("no other call holds them");
}

#[test]
fn every_function_in_the_table_is_tested() {
    let source = in_one_line(THIS_FILE);
    let mut rows = 0;
    let lines = README.lines().chain(ATTRIBUTE.lines());
    for row in lines.filter(|line| line.starts_with('|')) {
        let Some((_, code)) = row.split_once("| `#[distributed_lock") else {
            continue;
        };
        let (attribute, function) = code.split_once("`<br>`").unwrap_or((code, ""));
        let attribute = format!("#[distributed_lock{attribute}");
        let function = function.trim_end_matches("` |");
        let shown = format!("{attribute} {function} {{");
        assert!(
            source.contains(&in_one_line(&shown)),
            "not compiled: {shown}"
        );
        rows += 1;
    }
    assert_eq!(rows, 14);
}

#[test]
fn the_promise_is_quoted_verbatim() {
    let promise = "no two holders' leases overlap, and an async body is not polled at or after its deadline. This \
        holds if the store loses no acknowledged write, and its clock neither steps nor runs more than 1 % faster \
        than this machine's. A running poll, blocking code, spawned tasks and requests already sent can still act \
        after the deadline. No lock service can prevent that; only a check of the fence at the resource can.";
    let readme = in_one_line(README).to_lowercase();
    assert!(readme.contains(&in_one_line(promise).to_lowercase()));
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
