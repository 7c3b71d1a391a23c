//! Output of the command.

use std::fmt::Display;
use std::io::{self, Write as _};

/// Prints a line on standard output. A closed pipe (`| head -1`) is not an error.
pub(crate) fn line(text: &impl Display) {
    let _ = try_line(text);
}

/// Like [`line`], but returns an error if the reader is gone, so that the command can end.
pub(crate) fn try_line(text: &impl Display) -> io::Result<()> {
    writeln!(io::stdout(), "{text}")
}

/// Prints a line on standard error. A closed standard error is ignored.
pub(crate) fn note(text: &impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
