//! The results of a benchmark in each of its rounds.

use std::collections::BTreeMap;

use crate::figures::{Figures, METRICS};
use crate::measure::{Measure, median};

/// The contestant with which the others are compared in each round.
pub(crate) const BASE: &str = "hand_written";

/// The value of a metric in each round.
type Rounds = BTreeMap<u32, f64>;

/// One benchmark: each contestant's figures by round, and remarks.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    samples: Vec<(String, BTreeMap<&'static str, Rounds>)>,
    remarks: Vec<(String, String)>,
}

impl Sheet {
    /// Adds the figures of a contestant in one round.
    pub(crate) fn add(&mut self, contestant: &str, round: u32, figures: Figures) {
        let place = self.place(contestant);
        for (metric, value) in figures {
            let rounds = self.samples[place].1.entry(metric).or_default();
            rounds.insert(round, value);
        }
    }

    /// Adds a remark on a contestant, unless it already has this remark.
    pub(crate) fn remark(&mut self, contestant: &str, text: &str) {
        let remark = (contestant.to_owned(), text.replace(['\n', '|'], " "));
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    pub(crate) fn remarks(&self) -> &[(String, String)] {
        &self.remarks
    }

    /// Returns the median and the spread of each metric of each contestant.
    pub(crate) fn measures(&self, row: &str, date: &str) -> Vec<Measure> {
        let mut measures = Vec::new();
        for (contestant, figures) in &self.samples {
            for metric in METRICS {
                if let Some(rounds) = figures.get(metric) {
                    let samples: Vec<f64> = rounds.values().copied().collect();
                    measures.push(Measure {
                        ratio: self.ratio(contestant, metric, rounds),
                        ..Measure::new(row, contestant, metric, &samples, date)
                    });
                }
            }
        }
        measures
    }

    /// Returns the median, over the rounds, of a contestant's figure divided by that of [`BASE`] in
    /// the same round.
    fn ratio(&self, contestant: &str, metric: &str, rounds: &Rounds) -> Option<f64> {
        let (_, of_base) = self.samples.iter().find(|(name, _)| name == BASE)?;
        let base = of_base.get(metric).filter(|_| contestant != BASE)?;
        let of_round = |(round, value): (&u32, &f64)| {
            let base = base.get(round).filter(|base| **base > 0.0)?;
            Some(value / base)
        };
        let ratios: Vec<f64> = rounds.iter().filter_map(of_round).collect();
        (!ratios.is_empty()).then(|| median(&ratios))
    }

    fn place(&mut self, contestant: &str) -> usize {
        let found = self.samples.iter().position(|(name, _)| name == contestant);
        found.unwrap_or_else(|| {
            self.samples.push((contestant.to_owned(), BTreeMap::new()));
            self.samples.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if the ratio divides the two medians, instead of the figures of each round. Also fails
    /// if a round counts in which one of the two contestants has no figure.
    #[test]
    fn ratios_compare_figures_of_the_same_round() {
        let mut sheet = Sheet::default();
        let rounds = [(1, 10.0, 20.0), (2, 100.0, 300.0), (3, 1_000.0, 500.0)];
        for (round, base, ours) in rounds {
            sheet.add("leasehold", round, Figures::from([("p50_us", ours)]));
            sheet.add(BASE, round, Figures::from([("p50_us", base)]));
        }
        sheet.add("leasehold", 4, Figures::from([("p50_us", 1e9)]));
        let measures = sheet.measures("row", "2026-01-31");
        let of = |who: &str| measures.iter().find(|measure| measure.contestant == who);
        assert_eq!(of("leasehold").and_then(|measure| measure.ratio), Some(2.0));
        assert_eq!(of(BASE).and_then(|measure| measure.ratio), None);
    }
}
