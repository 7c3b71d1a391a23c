//! Locks in a program that is not async: threads do the work. Only connecting and the shutdown need
//! a tokio runtime.
//!
//! A function without `async` gets the same attribute. The calling thread is parked until it has
//! the lock, and the engine's own thread renews the lease while the thread works.
//!
//! ```sh
//! cargo run --example blocking
//! ```

use std::error::Error;
use std::thread;
use std::time::Duration;

use leasehold::{LockError, LockPool, distributed_lock};
use tokio::runtime::Runtime;

#[distributed_lock(key = "report:<day>", ttl = "5s", watchdog, wait = "30s", guard = lock)]
fn write_report(writer: u32, day: u32) -> Result<(), LockError> {
    println!("writer {writer} begins the report of day {day}");
    thread::sleep(Duration::from_millis(100)); // the pages are written
    lock.check()?; // before a step that cannot be taken back
    println!("writer {writer}: the report is written");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?; // only connecting and the shutdown are async
    let pool = runtime.block_on(LockPool::connect("memory://"))?; // "redis://127.0.0.1/"
    pool.install()?;

    // Three threads write the same report, one after the other.
    let writers: Vec<_> = (1..=3)
        .map(|writer| thread::spawn(move || write_report(writer, 7)))
        .collect();
    for writer in writers {
        writer.join().map_err(|_| "a writer panicked")??;
    }

    // A lock as a value, without the attribute.
    let ttl = Duration::from_secs(5);
    let guard = pool.lock("report:8").ttl(ttl).acquire_blocking()?;
    if let Err(error) = pool.lock("report:8").ttl(ttl).run_blocking(|| ()) {
        println!("refused: {error}");
    }
    guard.release_blocking()?;

    runtime.block_on(leasehold::shutdown(Duration::from_secs(5)));
    Ok(())
}
