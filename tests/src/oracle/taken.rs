//! Locks that operators have taken away from processes. Such a process may be cut off from the
//! store, and then continues its body.

use super::section::Section;

/// One record for each time that an operator took the key away. The parts are the process of the
/// former holder, the time of the operator's request, and the time of the store's answer.
#[derive(Debug, Default)]
pub(super) struct Takes(Vec<(u32, u64, u64)>);

impl Takes {
    pub(super) fn note(&mut self, process: u32, from: u64, by: u64) {
        self.0.push((process, from, by));
    }

    /// Ends each taken lease at the time of the operator's request, because a cut-off holder does
    /// not exclude the next holder. A lease counts as taken if it was requested before the store
    /// answered the operator, and had not ended before the operator's request. The start of the
    /// body does not matter, because a stopped process may read its grant late.
    pub(super) fn cut(&self, sections: &mut [Section]) {
        for (process, from, by) in &self.0 {
            let taken = sections.iter_mut().filter(|section| {
                // The upper 32 bits of a body's number are the id of its process.
                section.holder >> 32 == u64::from(*process)
                    && section.sent <= *by
                    && *from < section.end()
            });
            for section in taken {
                section.deadline = section.deadline.min(*from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::oracle::fixtures::{enter, kinds, leave};
    use crate::oracle::{Kind, Note};

    fn taken(process: u32, from: u64) -> Note {
        Note::TakenAway {
            key: "k".to_owned(),
            process,
            from,
            by: from + 5,
        }
    }

    fn of(process: u64) -> u64 {
        process << 32 | 1
    }

    #[test]
    fn a_revoked_lease_excludes_no_other_holder() {
        let both = [enter(of(7), 1, 10), enter(of(8), 2, 60)];
        assert_eq!(kinds(&both), [Kind::Overlap]);
        let with = |take: Note| [&both[..], &[take]].concat();
        assert_eq!(kinds(&with(taken(7, 50))), []);
        assert_eq!(
            kinds(&with(taken(9, 50))),
            [Kind::Overlap],
            "another process"
        );
        assert_eq!(kinds(&with(taken(7, 70))), [Kind::Overlap], "too late");
    }

    #[test]
    fn a_late_grant_can_have_been_revoked() {
        let mut late = enter(of(7), 1, 10);
        if let Note::Enter { at, .. } = &mut late {
            *at = 70;
        }
        let both = [enter(of(8), 2, 60), leave(of(8), 65, 160), late];
        assert_eq!(kinds(&both), [Kind::Crossed]);
        let with = |take: Note| [&both[..], &[take]].concat();
        assert_eq!(kinds(&with(taken(7, 50))), []);
        assert_eq!(
            kinds(&with(taken(9, 50))),
            [Kind::Crossed],
            "another process"
        );
        assert_eq!(kinds(&with(taken(7, 3))), [Kind::Crossed], "too early");
    }

    #[test]
    fn a_revocation_does_not_affect_an_ended_section() {
        let first = [enter(of(7), 1, 10), leave(of(7), 20, 110)];
        let second = [enter(of(7), 2, 60), enter(of(8), 3, 90)];
        let early = [&first[..], &second, &[taken(7, 30)]].concat();
        assert_eq!(kinds(&early), [Kind::Overlap]);
    }
}
