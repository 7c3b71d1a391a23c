//! `leasehold ls`: the locks that are held.

use std::time::SystemTime;

use leasehold::{LockInfo, LockPool};

use super::table::Table;
use super::{screen, sort, text, to_json, with_place};
use crate::args::Store;
use crate::exit;
use crate::failure::Failure;
use crate::output;

/// Maximum number of locks kept in memory. They are sorted and printed together, with the same
/// column widths.
const PAGE: usize = 1_000;

/// Prints the matching locks, sorted by key. If more than [`PAGE`] locks match, prints them in
/// several parts, each of which is sorted. As JSON, each lock is one line.
pub(crate) async fn ls(store: &Store, pattern: &str, json: bool) -> Result<u8, Failure> {
    let pool = store.connect().await?;
    let mut printer = Printer::new(&pool, json);
    let mut locks = pool.locks(pattern);
    while let Some(lock) = locks.next().await {
        printer.add(lock?);
        if printer.is_full() && !printer.print() {
            return Ok(exit::SUCCESS);
        }
    }
    printer.print();
    printer.end(pattern);
    Ok(exit::SUCCESS)
}

struct Printer<'a> {
    pool: &'a LockPool,
    json: bool,
    page: Vec<LockInfo>,
    table: Table,
    printed: bool,
}

impl<'a> Printer<'a> {
    fn new(pool: &'a LockPool, json: bool) -> Self {
        Self {
            pool,
            json,
            page: Vec::new(),
            table: Table::new(screen::width()),
            printed: false,
        }
    }

    fn add(&mut self, lock: LockInfo) {
        self.page.push(lock);
    }

    fn is_full(&self) -> bool {
        PAGE <= self.page.len()
    }

    /// Prints the collected locks. Returns true unless the reader of standard output is gone.
    fn print(&mut self) -> bool {
        sort(&mut self.page);
        let (page, now) = (std::mem::take(&mut self.page), SystemTime::now());
        let lines: Vec<String> = if self.json {
            let json = page.iter().map(|lock| with_place(to_json(lock), self.pool));
            json.map(|lock| lock.to_string()).collect()
        } else if page.is_empty() {
            Vec::new()
        } else {
            self.table.lines(&page, !self.printed, now)
        };
        self.printed |= !page.is_empty();
        lines.iter().all(|line| output::try_line(line).is_ok())
    }

    /// Reports it on standard error if no lock has matched, unless the output is JSON.
    fn end(&self, pattern: &str) {
        if !self.printed && !self.json {
            let (pattern, place) = (text::plain(pattern), text::place(self.pool));
            output::note(&format_args!("no held lock matches `{pattern}` {place}"));
        }
    }
}
