//! Writes results into a page: replaces the text between its two markers and keeps the rest.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::contestants::Fault;
use crate::entry::{self, Entry};
use crate::measure::{self, Measure};
use crate::pace::Pace;
use crate::{bound, machine, plot, table, targets};

/// A part of the page to replace by new results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Section {
    /// The benchmarks with setups.
    Services,
    /// All other benchmarks, with the plot.
    Measured,
}

impl Section {
    /// Returns the markers: the lines of the page before and after the section.
    fn markers(self) -> [String; 2] {
        let name = match self {
            Self::Services => "services",
            Self::Measured => "measured",
        };
        ["begin", "end"].map(|place| format!("<!-- {name}: {place} -->"))
    }
}

/// Writes the results in `files` into a section of `page`. For `Measured`, also writes the plot
/// beside the page.
pub(crate) fn write(section: Section, files: &[PathBuf], page: &Path) -> Result<(), Fault> {
    let measures = measure::read(files)?;
    let old =
        std::fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
    let body = match section {
        Section::Services => services(&measures),
        Section::Measured => measured(&measures, page),
    };
    let markers = section.markers();
    let new = replaced(&old, &markers, &body).ok_or_else(|| {
        let [begin, end] = &markers;
        format!(
            "{} needs the lines `{begin}` and `{end}`, in this order",
            page.display()
        )
    })?;
    if section == Section::Measured {
        std::fs::write(page.with_extension("svg"), plot::draw(&measures)?)?;
    }
    std::fs::write(page, new)?;
    Ok(())
}

fn replaced(old: &str, [begin, end]: &[String; 2], body: &str) -> Option<String> {
    let (before, rest) = old.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n{body}{end}{after}"))
}

/// The tables of the benchmarks that resemble services. For each table: the name that selects its
/// benchmarks and setups, and its title.
const SERVICES: &[(&str, &str)] = &[
    ("open:quiet", "Open loop, nothing beside it"),
    ("open:busy", "Open loop, two busy processes beside it"),
    ("closed:quiet", "Closed loop, nothing beside it"),
    ("closed:busy", "Closed loop, two busy processes beside it"),
];

fn services(measures: &[Measure]) -> String {
    let mut text = format!(
        "Machine: {}. Days: {}.\n\n### Numbers to reach\n\n{}{}",
        machine::describe(),
        days(measures),
        bound::table(measures),
        targets::of_hot_keys(measures)
    );
    for (rows, title) in SERVICES {
        let names = entry::chosen(&[(*rows).to_owned()], Pace::Full).unwrap_or_default();
        let names: Vec<String> = names.iter().map(Entry::name).collect();
        if measures.iter().any(|measure| names.contains(&measure.row)) {
            let table = table::ratios(&names, measures);
            let _ = write!(text, "\n### {title}\n\n{table}");
        }
    }
    text.push('\n');
    text
}

fn measured(measures: &[Measure], page: &Path) -> String {
    let plot = page.with_extension("svg");
    let plot = plot.file_name().unwrap_or_default().to_string_lossy();
    let mut text = format!(
        "Machine: {}. Days: {}.\n\n![The same figures as a plot]({plot})\n\n## Targets\n\n{}\n## Every row\n",
        machine::describe(),
        days(measures),
        targets::table(measures)
    );
    for entry in entry::all().filter(|entry| entry.setup.is_none()) {
        let (name, title) = (entry.name(), entry.title());
        let of_row = measures.iter().filter(|measure| measure.row == name);
        let of_row: Vec<_> = of_row.cloned().collect();
        if !of_row.is_empty() {
            let table = table::row(&name, &title, &of_row, &[]);
            let _ = write!(text, "\n{table}{}", absent(&entry, &of_row));
        }
    }
    text.push('\n');
    text
}

/// Returns the line below a table: the contestants without a figure.
fn absent(entry: &Entry, measures: &[Measure]) -> String {
    let names = entry.row.contestants.iter().map(ToString::to_string);
    let missing = names.filter(|name| !measures.iter().any(|measure| &measure.contestant == name));
    let missing: Vec<_> = missing.map(|name| format!("`{name}`")).collect();
    if missing.is_empty() {
        return String::new();
    }
    format!("\nNot part of this run: {}.\n", missing.join(", "))
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
    fn handwritten_text_stays_in_the_report() {
        let markers = Section::Services.markers();
        let [begin, end] = &markers;
        let old = format!("# Title\n{begin}\nold\n{end}\nprose\n");
        let new = replaced(&old, &markers, "new\n").expect("both markers are there");
        assert_eq!(new, format!("# Title\n{begin}\nnew\n{end}\nprose\n"));
        assert_eq!(replaced("no markers", &markers, "new"), None);
    }
}
