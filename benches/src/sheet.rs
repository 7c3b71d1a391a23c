//! What a row's rounds have brought.

use std::collections::BTreeMap;

use crate::figures::{Figures, METRICS};
use crate::measure::Measure;

/// One row: who brought what in which round, and what there is to say of somebody.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    samples: Vec<(String, BTreeMap<&'static str, Vec<f64>>)>,
    remarks: Vec<(String, String)>,
}

impl Sheet {
    /// Adds a round of a contestant.
    pub(crate) fn add(&mut self, contestant: &str, figures: Figures) {
        let place = self.place(contestant);
        for (metric, value) in figures {
            self.samples[place].1.entry(metric).or_default().push(value);
        }
    }

    /// Says something of a contestant; the same thing once.
    pub(crate) fn remark(&mut self, contestant: &str, text: &str) {
        let remark = (contestant.to_owned(), text.replace(['\n', '|'], " "));
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    pub(crate) fn remarks(&self) -> &[(String, String)] {
        &self.remarks
    }

    /// The medians and spreads.
    pub(crate) fn measures(&self, row: &str, date: &str) -> Vec<Measure> {
        let mut measures = Vec::new();
        for (contestant, figures) in &self.samples {
            for metric in METRICS {
                if let Some(samples) = figures.get(metric) {
                    measures.push(Measure::new(row, contestant, metric, samples, date));
                }
            }
        }
        measures
    }

    fn place(&mut self, contestant: &str) -> usize {
        let found = self.samples.iter().position(|(name, _)| name == contestant);
        found.unwrap_or_else(|| {
            self.samples.push((contestant.to_owned(), BTreeMap::new()));
            self.samples.len() - 1
        })
    }
}
