//! Locks as a table.

use std::time::SystemTime;

use leasehold::LockInfo;

use super::text;

const COLUMNS: usize = 6;
const KEY: usize = 0;
const HOLDER: usize = 2;

const HEAD: [&str; COLUMNS] = ["KEY", "KIND", "HOLDER", "HELD FOR", "EXPIRES IN", "WAITING"];

/// The space between two columns.
const GAP: usize = 2;

/// The room to which keys are shortened at most. With less room the holder has a separate line.
const SHORTEST_KEY: usize = 20;

/// Formats locks as rows. Columns never become narrower, unless the terminal does.
#[derive(Debug)]
pub(super) struct Table {
    widths: [usize; COLUMNS],
    /// The columns of the terminal; none for no limit.
    room: Option<usize>,
}

impl Table {
    pub(super) fn new(room: Option<usize>) -> Self {
        Self {
            widths: HEAD.map(str::len),
            room,
        }
    }

    /// Sets the columns of the terminal; none for no limit.
    pub(super) fn fit(&mut self, room: Option<usize>) {
        self.room = room;
    }

    /// Returns the rows of these locks, below the column names if `head` is true.
    pub(super) fn lines(&mut self, locks: &[LockInfo], head: bool, now: SystemTime) -> Vec<String> {
        let head = head.then(|| HEAD.map(str::to_owned));
        let rows = locks.iter().flat_map(|lock| rows(lock, now));
        let rows: Vec<[String; COLUMNS]> = head.into_iter().chain(rows).collect();
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let lines = rows.into_iter().flat_map(|row| self.row(row));
        lines.collect()
    }

    /// Returns the lines of a row: one, or a line with the other columns and lines with the holder.
    fn row(&self, mut row: [String; COLUMNS]) -> Vec<String> {
        let room = self.room.unwrap_or(usize::MAX);
        let (mut widths, all) = (self.widths, self.widths.iter().sum::<usize>());
        let beside_key = all - widths[KEY] + GAP * (COLUMNS - 1);
        let has_line = room < beside_key + SHORTEST_KEY.min(widths[KEY]);
        let beside_key = if has_line {
            beside_key - widths[HOLDER] - GAP
        } else {
            beside_key
        };
        widths[KEY] = room.saturating_sub(beside_key).clamp(1, widths[KEY]);
        row[KEY] = text::shortened(&row[KEY], widths[KEY]);
        let cells = row.iter().zip(widths).enumerate();
        let cells = cells.filter(|(column, _)| !(has_line && *column == HOLDER));
        let cells = cells.map(|(_, (cell, width))| format!("{cell:<0$}", width + GAP));
        let mut lines = vec![cells.collect::<String>().trim_end().to_owned()];
        if has_line {
            let holder = text::wrapped(&row[HOLDER], room.saturating_sub(GAP).max(1));
            lines.extend(holder.iter().map(|line| format!("  {line}")));
        }
        lines
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
