//! What the command prints.

use std::fmt::Display;
use std::io::{self, Write as _};

/// Prints a line on standard output. A reader that is gone (`| head -1`) is not an error.
pub(crate) fn line(text: &impl Display) {
    let _ = try_line(text);
}

/// As [`line`], for a command that ends when its reader is gone.
pub(crate) fn try_line(text: &impl Display) -> io::Result<()> {
    writeln!(io::stdout(), "{text}")
}

/// Prints a line on standard error. One that is closed is not an error.
pub(crate) fn note(text: &impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
