//! Puts results into a page: everything between its two markers is replaced, what people wrote around them stays.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::contestants::Fault;
use crate::measure::{self, Measure};
use crate::row::{self, Row};
use crate::{machine, plot, table, targets};

const BEGIN: &str = "<!-- measured: begin -->";
const END: &str = "<!-- measured: end -->";

/// Writes the results in `files` into `page`, and the plot beside it.
pub(crate) fn write(files: &[PathBuf], page: &Path) -> Result<(), Fault> {
    let measures = measure::read(files)?;
    let old =
        std::fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
    let new = replaced(&old, &body(&measures, page)).ok_or_else(|| {
        format!(
            "{} needs the lines `{BEGIN}` and `{END}`, in this order",
            page.display()
        )
    })?;
    std::fs::write(page.with_extension("svg"), plot::draw(&measures)?)?;
    std::fs::write(page, new)?;
    Ok(())
}

fn replaced(old: &str, body: &str) -> Option<String> {
    let (before, rest) = old.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{body}{END}{after}"))
}

fn body(measures: &[Measure], page: &Path) -> String {
    let plot = page.with_extension("svg");
    let plot = plot.file_name().unwrap_or_default().to_string_lossy();
    let mut text = format!(
        "Machine: {}. Days: {}.\n\n![The same figures as a plot]({plot})\n\n## Targets\n\n{}\n## Every row\n",
        machine::describe(),
        days(measures),
        targets::table(measures)
    );
    for row in row::all() {
        let of_row: Vec<_> = measures
            .iter()
            .filter(|measure| measure.row == row.name)
            .cloned()
            .collect();
        if !of_row.is_empty() {
            let remarks = absent(row, &of_row);
            let _ = write!(
                text,
                "\n{}",
                table::row(row.name, row.title, &of_row, &remarks)
            );
        }
    }
    text.push('\n');
    text
}

/// Who belongs to the row and has no figure.
fn absent(row: &Row, measures: &[Measure]) -> Vec<(String, String)> {
    let names = row.contestants.iter().map(ToString::to_string);
    let missing = names.filter(|name| !measures.iter().any(|measure| &measure.contestant == name));
    missing
        .map(|name| (name, "not run here".to_owned()))
        .collect()
}

fn days(measures: &[Measure]) -> String {
    let mut days: Vec<_> = measures
        .iter()
        .map(|measure| measure.date.as_str())
        .collect();
    days.sort_unstable();
    days.dedup();
    days.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_wrote_stays() {
        let old = format!("# Title\n{BEGIN}\nold\n{END}\nprose\n");
        let new = replaced(&old, "new\n").expect("both markers are there");
        assert_eq!(new, format!("# Title\n{BEGIN}\nnew\n{END}\nprose\n"));
        assert_eq!(replaced("no markers", "new"), None);
    }
}
