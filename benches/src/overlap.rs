//! Detects critical sections of one lock that ran at the same time.

use crate::record::Record;

/// Returns the number of critical sections that began before an earlier one had ended. Sorts the
/// records by their beginning.
pub(crate) fn count(records: &mut [Record]) -> u64 {
    records.sort_unstable_by_key(|record| record.entered);
    let mut free_from = 0;
    let mut overlaps = 0;
    for record in records {
        overlaps += u64::from(record.entered < free_from);
        free_from = free_from.max(record.left);
    }
    overlaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(spans: &[(u64, u64)]) -> Vec<Record> {
        let section = |&(entered, left)| Record {
            task: 0,
            asked: 0,
            entered,
            left,
            released: left,
        };
        spans.iter().map(section).collect()
    }

    #[test]
    fn consecutive_sections_do_not_overlap() {
        // Two sections do not overlap if one begins in the nanosecond in which the other one ends.
        assert_eq!(count(&mut sections(&[(30, 40), (10, 20), (20, 30)])), 0);
    }

    #[test]
    fn a_seeded_overlap_is_detected_at_any_position() {
        let fine: Vec<_> = (0..100).map(|at| (at * 10, at * 10 + 9)).collect();
        for place in 0..99 {
            let mut spans = fine.clone();
            spans[place].1 += 2;
            assert_eq!(count(&mut sections(&spans)), 1, "at {place}");
        }
    }

    #[test]
    fn a_long_section_overlaps_all_sections_that_begin_in_it() {
        assert_eq!(
            count(&mut sections(&[(0, 100), (10, 20), (30, 40), (100, 110)])),
            2
        );
    }
}
