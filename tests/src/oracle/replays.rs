//! Kept results. While a result is kept, no body may begin, and every later answer must equal the
//! first one.

use super::Kind;
use super::section::Section;

/// The answer that a call got.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    /// Time at which the call got the answer, in nanoseconds.
    pub(super) at: u64,
    /// Number of the body that the call ran, or `None` for an answer from a kept result.
    pub(super) ran: Option<u64>,
    /// Number of the body that made the answer, or 0 if unknown.
    pub(super) from: u64,
    /// Fingerprints of the call's own request, and of the request whose body made the answer.
    pub(super) asked: u64,
    pub(super) answers: u64,
    /// True if all bodies insert the same unique key into a table, and answer with the number of
    /// the body whose insert succeeded. So all answers must name the same body.
    pub(super) unique: bool,
}

/// The store's promise about the results of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Keeps {
    /// No promise, because the store may be emptied.
    #[default]
    Nothing,
    /// The store loses no result, but a release, which stores the result, may be lost. So a result
    /// is certainly kept only after a call has got it from the store.
    OnceSeen,
    /// The store loses no result, and answers each release.
    All,
}

/// Finds answers and bodies that break the promise about kept results.
///
/// With `Keeps::All`, a result is certainly kept once a body has left within its lease and its call
/// has returned `Ok`. A body killed before its release keeps no result.
pub(super) fn broken(
    sections: &[Section],
    answers: &[Answer],
    keeps: Keeps,
) -> Vec<(Kind, String)> {
    let body = |holder: u64| sections.iter().find(|section| section.holder == holder);
    let left = |answer: &Answer| {
        let body = body(answer.ran?)?;
        body.left.filter(|left| *left < body.deadline)
    };
    let earliest = |which: &dyn Fn(&Answer) -> bool| {
        let all = answers.iter().filter(|answer| which(answer));
        all.min_by_key(|answer| answer.at)
    };
    let ran = earliest(&|answer| left(answer).is_some());
    let replayed = earliest(&|answer| answer.ran.is_none());
    let kept = match keeps {
        Keeps::Nothing => None,
        Keeps::OnceSeen => replayed,
        Keeps::All => ran.or(replayed),
    };
    let unique = earliest(&|answer| answer.unique);
    let mut found = Vec::new();
    for answer in answers {
        let expected = if answer.unique { unique } else { kept };
        let other = match expected.filter(|_| answer.unique || answer.ran.is_none()) {
            Some(expected) => answer.from != expected.from,
            None => answer.ran.is_none() && body(answer.from).is_none(),
        };
        if other || answer.asked != answer.answers {
            let detail = format!("{answer:?}, and the first result is {expected:?}");
            found.push((Kind::WrongReplay, detail));
        }
    }
    let (since, again): (_, fn(&Section) -> u64) = match keeps {
        Keeps::Nothing => (None, |_| 0),
        // A body breaks the promise only if its lease was requested after the answer. Otherwise its
        // lock may have been granted before the answer, even if the body began after the answer.
        Keeps::OnceSeen => (replayed.map(|answer| answer.at), |section| section.sent),
        Keeps::All => (ran.and_then(left), |section| section.at),
    };
    if let Some(since) = since {
        let again = sections.iter().filter(|section| since < again(section));
        found.extend(again.map(|again| {
            let detail = format!("{again:?}, and a result is kept since {since}");
            (Kind::RanAgain, detail)
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::oracle::fixtures::{enter, kinds, leave};
    use crate::oracle::{Kind, Note};

    /// Returns the note of an answer from the body `from`. `ran` is the body that the call ran, if
    /// any.
    fn answer(at: u64, ran: Option<u64>, from: u64) -> Note {
        Note::Answered {
            key: "k".to_owned(),
            at,
            ran,
            from,
            asked: 1,
            answers: 1,
            unique: false,
        }
    }

    fn unique(mut note: Note) -> Note {
        if let Note::Answered { unique, .. } = &mut note {
            *unique = true;
        }
        note
    }

    fn kept() -> Note {
        Note::AllKept {
            key: "k".to_owned(),
        }
    }

    fn ran(holder: u64, at: u64) -> [Note; 3] {
        let left = leave(holder, at + 10, at + 100);
        let answer = answer(at + 12, Some(holder), holder);
        [enter(holder, holder, at), left, answer]
    }

    #[test]
    fn a_second_body_after_a_kept_result_is_a_violation() {
        let twice = [&ran(1, 10)[..], &ran(2, 30)[..]].concat();
        assert_eq!(kinds(&twice), [], "the store may have lost the result");
        let all = [&twice[..], &[kept()]].concat();
        assert_eq!(kinds(&all), [Kind::RanAgain]);
        // The first process was killed before its release, so it kept no result.
        let killed = [&ran(1, 10)[..1], &ran(2, 120)[..], &[kept()]].concat();
        assert_eq!(kinds(&killed), []);
        // The first body left after the end of its lease, so its result was not kept.
        let late = [enter(1, 1, 10), leave(1, 200, 110), answer(201, Some(1), 1)];
        let second = [answer(220, None, 2), kept()];
        let late = [&late[..], &ran(2, 120)[..], &second[..]].concat();
        assert_eq!(kinds(&late), []);
    }

    #[test]
    fn a_returned_result_must_not_change() {
        let durable = Note::Durable {
            key: "k".to_owned(),
        };
        let with = |notes: &[Note]| kinds(&[notes, std::slice::from_ref(&durable)].concat());
        // The first release was lost, so the second body ran.
        let twice = [&ran(1, 10)[..], &ran(2, 130)[..]].concat();
        let seen = [&twice[..], &[answer(150, None, 2)]].concat();
        assert_eq!(with(&seen), []);
        let other = [&seen[..], &[answer(160, None, 1)]].concat();
        assert_eq!(with(&other), [Kind::WrongReplay]);
        let again = [&seen[..], &ran(3, 300)[..]].concat();
        assert_eq!(with(&again), [Kind::RanAgain]);
    }

    #[test]
    fn every_later_answer_must_equal_the_first() {
        let with = |later: Note| [&ran(1, 10)[..], &[later, kept()]].concat();
        assert_eq!(kinds(&with(answer(30, None, 1))), []);
        assert_eq!(kinds(&with(answer(30, None, 0))), [Kind::WrongReplay]);
        let mut other = answer(30, None, 1);
        if let Note::Answered { answers, .. } = &mut other {
            *answers = 2;
        }
        assert_eq!(kinds(&with(other)), [Kind::WrongReplay]);
    }

    #[test]
    fn bodies_with_a_unique_key_must_have_one_answer() {
        let killed = [enter(1, 1, 10), enter(2, 2, 120), leave(2, 130, 220)];
        let same = unique(answer(140, Some(2), 1));
        let same = [&killed[..], &[same]].concat();
        assert_eq!(kinds(&same), []);
        let differs = unique(answer(150, None, 2));
        let differs = [&same[..], &[differs]].concat();
        assert_eq!(kinds(&differs), [Kind::WrongReplay]);
    }
}
