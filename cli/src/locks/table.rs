//! Locks as a table.

use std::time::SystemTime;

use leasehold::LockInfo;

use super::text;

const COLUMNS: usize = 6;
const KEY: usize = 0;

const HEAD: [&str; COLUMNS] = ["KEY", "KIND", "HOLDER", "HELD FOR", "EXPIRES IN", "WAITING"];

/// The space between two columns.
const GAP: usize = 2;

/// Layouts of a row: the columns in its first line, and the columns in the lines below. The first
/// layout that fits the terminal's width is used. If none fits, the last one is used, which shows
/// the whole key on one or several separate lines.
const LAYOUTS: [(&[usize], &[usize]); 3] = [
    (&[KEY, 1, 2, 3, 4, 5], &[]),
    (&[KEY, 1, 3, 4, 5], &[2]),
    (&[KEY], &[1, 3, 4, 5, 2]),
];

/// Formatter of locks as rows. A column keeps the width of its widest value so far, so that the
/// columns of later rows stay in place. Only the column of the key becomes narrower on a narrower
/// terminal.
#[derive(Debug)]
pub(super) struct Table {
    widths: [usize; COLUMNS],
    /// Width of the terminal, in columns. `None` if there is no limit.
    room: Option<usize>,
}

impl Table {
    pub(super) fn new(room: Option<usize>) -> Self {
        Self {
            widths: HEAD.map(str::len),
            room,
        }
    }

    /// Sets the width of the terminal, in columns. `None` stands for no limit.
    pub(super) fn fit(&mut self, room: Option<usize>) {
        self.room = room;
    }

    /// Returns the rows of these locks, below the column names if `head` is true.
    pub(super) fn lines(&mut self, locks: &[LockInfo], head: bool, now: SystemTime) -> Vec<String> {
        let head = head.then(|| HEAD.map(str::to_owned));
        let rows = locks.iter().flat_map(|lock| rows(lock, now));
        let rows: Vec<_> = head.into_iter().chain(rows).collect();
        self.lines_of(&rows)
    }

    fn lines_of(&mut self, rows: &[[String; COLUMNS]]) -> Vec<String> {
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = text::width(cell).max(*width);
            }
        }
        let lines = rows.iter().flat_map(|row| self.row(row));
        lines.collect()
    }

    /// Returns the lines of a row.
    fn row(&self, row: &[String; COLUMNS]) -> Vec<String> {
        let room = self.room.unwrap_or(usize::MAX);
        let beside_key = |first: &[usize]| -> usize {
            let beside = first.iter().filter(|column| **column != KEY);
            beside.map(|column| GAP + self.widths[*column]).sum()
        };
        let shortest = text::SHORTEST_KEY.min(self.widths[KEY]);
        let fits = |first: &[usize]| shortest + beside_key(first) <= room;
        let [one_line, holder_below, narrow] = LAYOUTS;
        let mut wide = [one_line, holder_below].into_iter();
        let (first, below) = wide.find(|(first, _)| fits(first)).unwrap_or(narrow);
        let mut lines = if first == [KEY] {
            text::wrapped(&row[KEY], room)
        } else {
            let width = (room - beside_key(first)).min(self.widths[KEY]);
            let mut line = text::padded(&text::shortened(&row[KEY], width), width);
            for column in &first[1..] {
                self.append(&mut line, row, *column);
            }
            vec![line.trim_end().to_owned()]
        };
        lines.extend(self.packed(row, below, room));
        lines
    }

    /// Returns indented lines with these columns. Each line has as many of them as fit.
    fn packed(&self, row: &[String; COLUMNS], columns: &[usize], room: usize) -> Vec<String> {
        let room = room.saturating_sub(GAP).max(1);
        let (mut lines, mut line) = (Vec::new(), String::new());
        for column in columns {
            if !line.is_empty() && room < text::width(&line) + self.widths[*column] {
                lines.push(std::mem::take(&mut line));
            }
            self.append(&mut line, row, *column);
        }
        lines.push(line);
        let lines = lines.iter();
        let lines = lines.flat_map(|line| text::wrapped(line.trim(), room));
        lines
            .filter(|line| !line.is_empty())
            .map(|line| format!("  {line}"))
            .collect()
    }

    /// Appends the gap and the cell of a column to a line.
    fn append(&self, line: &mut String, row: &[String; COLUMNS], column: usize) {
        line.push_str(&" ".repeat(GAP));
        line.push_str(&text::padded(&row[column], self.widths[column]));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines of a lock on a terminal of this width, without the column names.
    fn shown(room: usize, key: &str, holder: &str) -> Vec<String> {
        let mut table = Table::new(Some(room));
        let row = [key, "exclusive", holder, "2.5 s", "27 s", "0"].map(str::to_owned);
        let lines = table.lines_of(&[row]);
        for line in &lines {
            assert!(text::width(line) <= room, "{room}: {line:?}");
        }
        lines
    }

    /// Fails if a narrow terminal removes a part of a short key or of a value.
    #[test]
    fn narrow_terminals_show_the_whole_key() {
        let holder = "shop::create on web-1 (pid 7)";
        for room in 4..120 {
            let text = shown(room, "order:1234567", holder)
                .concat()
                .replace(' ', "");
            for part in [
                "order:1234567",
                "exclusive",
                "2.5s",
                "27s",
                "shop::createonweb-1(pid7)",
            ] {
                assert!(text.contains(part), "{room}: {text}");
            }
        }
        assert_eq!(
            shown(60, "order:1234567", holder),
            [
                "order:1234567  exclusive  2.5 s     27 s        0",
                "  shop::create on web-1 (pid 7)"
            ]
        );
        assert_eq!(
            shown(44, "order:1234567", holder),
            [
                "order:1234567",
                "  exclusive  2.5 s     27 s        0",
                "  shop::create on web-1 (pid 7)"
            ]
        );
        let narrow = shown(20, "order:1234567:and:more", holder);
        assert_eq!(narrow[..3], ["order:1234567:and:mo", "re", "  exclusive"]);
        assert_eq!(narrow[5..], ["  0", "  shop::create on", "  web-1 (pid 7)"]);
    }

    /// Fails if a long key is not shortened to the space beside the other columns, or if wide
    /// characters shift a column.
    #[test]
    fn wide_characters_keep_their_columns() {
        let key = "注文".repeat(20);
        for room in [62, 80] {
            let lines = shown(room, &key, &"f".repeat(80));
            let (before, _) = lines[0].split_once("exclusive").expect("it is a column");
            let expected = room - "exclusive  HELD FOR  EXPIRES IN  WAITING".len();
            assert_eq!(text::width(before), expected, "{lines:?}");
            assert!(
                lines[0].starts_with("注文") && lines[0].contains('…'),
                "{lines:?}"
            );
        }
        let mut table = Table::new(None);
        let row = |key: &str| [key, "exclusive", "h (pid 7)", "1 s", "1 s", "0"].map(str::to_owned);
        let lines = table.lines_of(&[row("注文:7"), row("order:42")]);
        assert!(lines[0].starts_with("注文:7    exclusive"), "{lines:?}");
        assert!(lines[1].starts_with("order:42  exclusive"), "{lines:?}");
    }

    /// Fails if the table panics on a very long text. A format string would panic if it had to pad
    /// a text to a width above 65,535.
    #[test]
    fn very_long_cells_are_padded() {
        let long = "x".repeat(70_000);
        let mut table = Table::new(None);
        let row = [&*long, "k", &*long, "1 s", "1 s", "0"].map(str::to_owned);
        assert!(table.lines_of(&[row])[0].len() > 140_000);
        assert!(shown(80, &long, &long).len() > 800);
    }
}
