//! A measure: one figure over several rounds, as stored in a file.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::contestants::Fault;

/// One metric of a contestant in a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measure {
    pub(crate) row: String,
    pub(crate) contestant: String,
    pub(crate) metric: String,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) rounds: usize,
    /// This figure divided by the figure of `hand_written` in the same round: the median over all
    /// rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
    /// The day, such as `2026-01-31`.
    pub(crate) date: String,
}

impl Measure {
    /// Computes the median and the spread of `samples`, which must not be empty.
    pub(crate) fn new(
        row: &str,
        contestant: &str,
        metric: &str,
        samples: &[f64],
        date: &str,
    ) -> Self {
        let sorted = sorted(samples);
        let count = sorted.len();
        Self {
            row: row.to_owned(),
            contestant: contestant.to_owned(),
            metric: metric.to_owned(),
            median: median(samples),
            min: sorted[0],
            max: sorted[count - 1],
            rounds: count,
            ratio: None,
            date: date.to_owned(),
        }
    }

    fn is_of(&self, other: &Self) -> bool {
        (&self.row, &self.contestant) == (&other.row, &other.contestant)
    }
}

/// Returns the median of `samples`, which must not be empty.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let sorted = sorted(samples);
    let count = sorted.len();
    f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2])
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the measure of a metric, if there is one.
pub(crate) fn find<'a>(
    measures: &'a [Measure],
    row: &str,
    contestant: &str,
    metric: &str,
) -> Option<&'a Measure> {
    measures.iter().find(|measure| {
        (
            measure.row.as_str(),
            measure.contestant.as_str(),
            measure.metric.as_str(),
        ) == (row, contestant, metric)
    })
}

/// Writes the measures, one JSON object per line.
pub(crate) fn write(path: &Path, measures: &[Measure]) -> Result<(), Fault> {
    let mut file =
        fs::File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
    for measure in measures {
        writeln!(file, "{}", serde_json::to_string(measure)?)?;
    }
    Ok(())
}

/// Reads several files. If several of them contain the same contestant in the same benchmark, the
/// last of these files counts.
pub(crate) fn read(paths: &[impl AsRef<Path>]) -> Result<Vec<Measure>, Fault> {
    let mut all = Vec::new();
    for path in paths {
        let path = path.as_ref();
        let text =
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let measures: Result<Vec<Measure>, _> = text.lines().map(serde_json::from_str).collect();
        let measures = measures.map_err(|error| format!("{}: {error}", path.display()))?;
        all.retain(|old: &Measure| !measures.iter().any(|new| new.is_of(old)));
        all.extend(measures);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_is_the_mean_of_two() {
        let measure = Measure::new("row", "who", "p50_us", &[4.0, 1.0, 2.0, 9.0], "2026-01-31");
        let values = (measure.median, measure.min, measure.max, measure.rounds);
        assert_eq!(values, (3.0, 1.0, 9.0, 4));
    }
}
