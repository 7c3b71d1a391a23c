//! The buyers of a sale as a bar of marks. One mark stands for a group of buyers with the same
//! outcome.

use std::env;
use std::io::IsTerminal as _;

/// Maximum number of marks in a bar before rounding. Each of the three outcomes rounds its number
/// of marks up, which can add two marks to the bar.
const WIDTH: u32 = 60;

/// The buyers with one outcome: their number, their mark, and the colour of the mark (an ANSI
/// code).
type Part = (u32, char, &'static str);

const GREEN: &str = "32";
const RED: &str = "1;31";
const GREY: &str = "90";

pub(crate) const LEGEND: &str = "■ got an item   ✗ got an item that was sold before   · got none";

/// Outcome of one sale for its buyers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bar {
    /// Buyers with an item that no other buyer has.
    pub(crate) single: u32,
    /// Buyers with an item that another buyer also has.
    pub(crate) double: u32,
    /// Buyers without an item.
    pub(crate) none: u32,
}

impl Bar {
    /// Draws one line. An outcome gets at least one mark if any buyer has it.
    pub(crate) fn draw(self, colours: bool) -> String {
        let parts: [Part; 3] = [
            (self.single, '■', GREEN),
            (self.double, '✗', RED),
            (self.none, '·', GREY),
        ];
        let all = self.single + self.double + self.none;
        let each = all.div_ceil(WIDTH).max(1);
        let drawn = parts.iter().map(|(count, mark, colour)| {
            let marks: String = (0..count.div_ceil(each)).map(|_| *mark).collect();
            if colours && !marks.is_empty() {
                format!("\x1b[{colour}m{marks}\x1b[0m")
            } else {
                marks
            }
        });
        drawn.collect()
    }
}

/// Colours a text red, if colours are on.
pub(crate) fn red(text: &str, colours: bool) -> String {
    if colours {
        format!("\x1b[{RED}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// True if standard output shows colours: it is a terminal, or `CLICOLOR_FORCE` is set. `NO_COLOR`
/// overrides both.
pub(crate) fn colours() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    !is_set("NO_COLOR") && (std::io::stdout().is_terminal() || is_set("CLICOLOR_FORCE"))
}
