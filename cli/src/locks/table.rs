//! Locks as a table.

use std::time::SystemTime;

use leasehold::LockInfo;

use super::text;

const COLUMNS: usize = 6;

const HEAD: [&str; COLUMNS] = ["KEY", "KIND", "HOLDER", "HELD FOR", "EXPIRES IN", "WAITING"];

/// The space between two columns.
const GAP: usize = 2;

/// Formats locks as rows. Columns never become narrower.
#[derive(Debug, Default)]
pub(super) struct Table {
    widths: [usize; COLUMNS],
}

impl Table {
    /// Returns the column names and the rows of these locks, one line each.
    pub(super) fn with_head(&mut self, locks: &[LockInfo], now: SystemTime) -> Vec<String> {
        let head = HEAD.map(str::to_owned);
        let rows = locks.iter().flat_map(|lock| rows(lock, now));
        self.lines(std::iter::once(head).chain(rows).collect())
    }

    /// Returns the rows of these locks, one line each.
    pub(super) fn without_head(&mut self, locks: &[LockInfo], now: SystemTime) -> Vec<String> {
        let rows = locks.iter().flat_map(|lock| rows(lock, now));
        self.lines(rows.collect())
    }

    fn lines(&mut self, rows: Vec<[String; COLUMNS]>) -> Vec<String> {
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let line = |row: [String; COLUMNS]| {
            let cells = row.iter().zip(self.widths);
            let cells: Vec<String> = cells
                .map(|(cell, width)| format!("{cell:<0$}", width + GAP))
                .collect();
            cells.concat().trim_end().to_owned()
        };
        rows.into_iter().map(line).collect()
    }
}

/// Returns one row per holder, or one row for a lock without holders.
fn rows(lock: &LockInfo, now: SystemTime) -> Vec<[String; COLUMNS]> {
    let (key, kind) = (text::plain(&lock.key), text::kind(lock));
    let waiting = lock.waiting.len().to_string();
    if lock.holders.is_empty() {
        let kept = text::until(lock.kept_until, now);
        let none = || "-".to_owned();
        return vec![[key, kind, none(), none(), text::or_dash(kept), waiting]];
    }
    let holders = lock.holders.iter().map(|holder| {
        [
            key.clone(),
            kind.clone(),
            text::holder(holder),
            text::or_dash(text::since(holder.since, now)),
            text::or_dash(holder.expires_in),
            waiting.clone(),
        ]
    });
    holders.collect()
}
