//! A terminal whose lines are redrawn in place.

use std::io::{self, IsTerminal as _, Write as _};

use super::text;

/// Assumed rows and columns of a terminal that does not report its size.
const SIZE: (usize, usize) = (24, 80);

/// True if standard output is a terminal.
pub(super) fn is_there() -> bool {
    io::stdout().is_terminal()
}

/// Returns the number of columns, if standard output is a terminal.
pub(super) fn width() -> Option<usize> {
    is_there().then(|| size().1)
}

/// Draws these lines over the previous ones, as far as they fit.
pub(super) fn draw(lines: &[String]) -> io::Result<()> {
    let (rows, columns) = size();
    let mut text = "\x1b[H".to_owned();
    for line in fitting(lines, rows, columns) {
        text.push_str(&line);
        text.push_str("\x1b[K\r\n");
    }
    text.push_str("\x1b[J");
    let mut out = io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Clears the terminal.
pub(super) fn clear() -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(b"\x1b[2J")?;
    out.flush()
}

/// Returns the lines that fit, each cut at the right edge. The last row stays empty, because a line
/// break in this row would scroll the terminal.
fn fitting(lines: &[String], rows: usize, columns: usize) -> Vec<String> {
    let rows = rows.saturating_sub(1).max(1);
    let cut = |line: &String| text::cut(line, columns).to_owned();
    if lines.len() <= rows {
        return lines.iter().map(cut).collect();
    }
    let mut fitting: Vec<String> = lines.iter().take(rows - 1).map(cut).collect();
    let more = lines.len() - fitting.len();
    fitting.push(cut(&format!("… and {more} more lines")));
    fitting
}

#[cfg(unix)]
fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    let known = size.ok().filter(|size| 0 < size.ws_row && 0 < size.ws_col);
    known.map_or(SIZE, |size| (size.ws_row.into(), size.ws_col.into()))
}

#[cfg(not(unix))]
fn size() -> (usize, usize) {
    SIZE
}

/// True if the reader of standard output is gone. On systems other than Linux, always returns
/// false: only the next write detects this.
#[cfg(target_os = "linux")]
pub(super) fn is_closed() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let out = io::stdout();
    let mut looked = [PollFd::new(&out, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let _ = poll(&mut looked, Some(&now));
    looked[0]
        .revents()
        .intersects(PollFlags::ERR | PollFlags::HUP)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_closed() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if more lines are drawn than fit, because the terminal would then scroll.
    #[test]
    fn lines_beyond_the_screen_are_counted() {
        let lines = ["one", "two", "three", "four"].map(str::to_owned);
        assert_eq!(fitting(&lines, 5, 80), lines);
        assert_eq!(fitting(&lines, 4, 80), ["one", "two", "… and 2 more lines"]);
        assert_eq!(fitting(&lines, 5, 2), ["on", "tw", "th", "fo"]);
        assert_eq!(fitting(&["注文:7".to_owned()], 5, 3), ["注"]);
    }
}
