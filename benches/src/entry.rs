//! The benchmarks of a run, with their setups and contestants.

use clap::ValueEnum as _;

use crate::contestants::Contestant::{self, LeaseholdBefore};
use crate::pace::Pace;
use crate::row::{Row, Task};
use crate::rows::{AGAINST, ROWS, SERVICE_ROWS};
use crate::setup::Setup;

/// A benchmark (row) in one of its setups. Each setup has separate results.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) row: &'static Row,
    pub(crate) setup: Option<Setup>,
}

/// The separator between the name of a benchmark and the words of its setup, as in
/// `open_200:current_thread`.
const PARTING: char = ':';
impl Entry {
    /// Returns the name of the entry in the results.
    pub(crate) fn name(&self) -> String {
        let mut name = self.row.name.to_owned();
        for word in self.setup.iter().flat_map(|setup| setup.words()) {
            name.push(PARTING);
            name.push_str(word);
        }
        name
    }

    /// Returns the title above the table: the benchmark's title, and the words of the setup.
    pub(crate) fn title(&self) -> String {
        let words = self
            .setup
            .map(|setup| format!(" ({})", setup.words().join(", ")));
        self.row.title.to_owned() + &words.unwrap_or_default()
    }

    /// True if `name` selects this entry. `name` begins with the name of a benchmark, such as
    /// `open_200`. If the benchmark has setups, only the part before `_` is needed, such as `open`.
    /// Words of the setup may follow.
    fn is_meant_by(&self, name: &str) -> bool {
        let mut parts = name.split(PARTING);
        let row = parts.next().unwrap_or_default();
        let group = self.setup.and(self.row.name.split('_').next());
        let words = self.setup.map(Setup::words).unwrap_or_default();
        (row == self.row.name || Some(row) == group) && parts.all(|part| words.contains(&part))
    }
}

impl Row {
    fn entries(&'static self) -> impl Iterator<Item = Entry> {
        let usual = self.setups.is_empty().then_some(None);
        let setups = self.setups.iter().copied().map(Some);
        usual
            .into_iter()
            .chain(setups)
            .map(move |setup| Entry { row: self, setup })
    }
}

/// Returns every benchmark, in each of its setups.
pub(crate) fn all() -> impl Iterator<Item = Entry> {
    let rows = ROWS.iter().chain(SERVICE_ROWS).chain(AGAINST);
    rows.flat_map(Row::entries)
}

/// Returns the entries that the names select. Without names, returns the entries of a run with this
/// `pace`. The error for an unknown name lists the known names.
pub(crate) fn chosen(names: &[String], pace: Pace) -> Result<Vec<Entry>, String> {
    if names.is_empty() {
        let against = |entry: &Entry| AGAINST.iter().any(|row| row.name == entry.row.name);
        let wanted = |entry: &Entry| match pace {
            Pace::Against => against(entry),
            Pace::Full => !against(entry),
            Pace::Quick => !against(entry) && pace.includes(&entry.name()),
        };
        return Ok(all().filter(wanted).collect());
    }
    if let Some(name) = names
        .iter()
        .find(|name| !all().any(|entry| entry.is_meant_by(name)))
    {
        return Err(unknown(name));
    }
    let meant = |entry: &Entry| names.iter().any(|name| entry.is_meant_by(name));
    Ok(all().filter(meant).collect())
}

fn unknown(name: &str) -> String {
    let mut known: Vec<_> = all().map(|entry| entry.row.name).collect();
    known.dedup();
    format!(
        "there is no row `{name}`; there are {}; `open` and `closed` are all of theirs, and words behind a row choose \
         of its setups: `open_1000:current_thread:delayed:busy`, `open:quiet`",
        known.join(", ")
    )
}

/// Returns the contestants of a benchmark. `wanted` has the contestants named on the command line.
/// If it is empty, returns those that the benchmark lists, but peers (contestants in separate
/// programs) only in a full run. Otherwise, returns those in `wanted` that the benchmark lists or
/// that are controls (`Contestant::is_control`). With `--against`, always adds the earlier build if
/// the benchmark measures clients.
pub(crate) fn contestants(row: &Row, wanted: &[Contestant], pace: Pace) -> Vec<Contestant> {
    let before = pace == Pace::Against && matches!(row.task, Task::Clients(_));
    let fits = |who: &&Contestant| match who {
        LeaseholdBefore if before => true,
        who if wanted.is_empty() => {
            row.contestants.contains(who) && (pace == Pace::Full || who.peer().is_none())
        }
        who => wanted.contains(who) && (row.contestants.contains(who) || who.is_control()),
    };
    Contestant::value_variants()
        .iter()
        .filter(fits)
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestants::Contestant::{HandWritten, Leasehold, Rslock};

    fn names(asked: &str) -> Vec<String> {
        let chosen = chosen(&[asked.to_owned()], Pace::Full).expect("there are such rows");
        chosen.iter().map(Entry::name).collect()
    }

    #[test]
    fn a_row_can_be_selected_in_all_setups_or_in_some() {
        assert_eq!(names("uncontended"), ["uncontended"]);
        assert_eq!(names("open_1000").len(), 8);
        assert_eq!(names("open").len(), 32);
        assert_eq!(names("closed:quiet").len(), 10);
        let one = "open_1000:current_thread:delayed:busy";
        assert_eq!(names(one), [one]);
        assert_eq!(names("open_1000:busy:delayed:current_thread"), [one]);
    }

    #[test]
    fn an_unknown_row_or_word_is_an_error() {
        for asked in ["warm", "open_1000:warm", "uncontended:quiet", "distinct"] {
            assert!(chosen(&[asked.to_owned()], Pace::Full).is_err(), "{asked}");
        }
    }

    #[test]
    fn a_given_earlier_build_takes_part_in_every_row() {
        let entry = all()
            .find(|entry| entry.row.name == "open_1000")
            .expect("the row");
        let who = |pace| contestants(entry.row, &[], pace);
        assert_eq!(who(Pace::Full), [Leasehold, HandWritten, Rslock]);
        assert_eq!(
            who(Pace::Against),
            [Leasehold, LeaseholdBefore, HandWritten, Rslock]
        );
    }
}
