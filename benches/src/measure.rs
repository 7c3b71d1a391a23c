//! Results: one figure of several rounds, as it stands in a file.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::contestants::Fault;

/// One metric of a contestant in a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measure {
    pub(crate) row: String,
    pub(crate) contestant: String,
    pub(crate) metric: String,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) rounds: usize,
    /// The day, as `2026-01-31`.
    pub(crate) date: String,
}

impl Measure {
    /// The median and the spread of `samples`, which are not empty.
    pub(crate) fn new(
        row: &str,
        contestant: &str,
        metric: &str,
        samples: &[f64],
        date: &str,
    ) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        Self {
            row: row.to_owned(),
            contestant: contestant.to_owned(),
            metric: metric.to_owned(),
            median: f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]),
            min: sorted[0],
            max: sorted[count - 1],
            rounds: count,
            date: date.to_owned(),
        }
    }
}

/// Writes them, one JSON object a line.
pub(crate) fn write(path: &Path, measures: &[Measure]) -> Result<(), Fault> {
    let mut file =
        fs::File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
    for measure in measures {
        writeln!(file, "{}", serde_json::to_string(measure)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_in_between() {
        let measure = Measure::new("row", "who", "p50_us", &[4.0, 1.0, 2.0, 9.0], "2026-01-31");
        let values = (measure.median, measure.min, measure.max, measure.rounds);
        assert_eq!(values, (3.0, 1.0, 9.0, 4));
    }
}
