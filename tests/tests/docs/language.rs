//! Checks that comments and pages follow the usual style of English technical texts.
//!
//! Some habits of writing make sentences hard to understand at the first reading. A single
//! occurrence is not a mistake, so the checks only limit the frequency of each habit. The comments
//! of tokio, redis-rs and axum stay below all limits.

use std::fmt;
use std::path::PathBuf;

use super::{files, pages, read, root};

/// Question words. A comment should open with its subject instead.
const OPENERS: &[&str] = &[
    "what", "whether", "how", "which", "when", "where", "who", "why",
];

/// Verbs for people. A program returns, reports, notifies, records or shows.
const SPEECH: &[&str] = &[
    "tell", "tells", "told", "telling", "hear", "hears", "heard", "hearing", "say", "says", "said",
    "saying", "news",
];

/// Phrases for which an everyday word exists.
const QUAINT: &[&[&str]] = &[
    &["anew"],
    &["of", "its", "own"],
    &["of", "their", "own"],
    &["in", "the", "place", "of"],
    &["by", "itself"],
    &["whatever"],
    &["nothing", "but"],
    &["at", "the", "least"],
];

/// The two words after the noun in clauses such as "a call that was refused", each with its
/// alternatives.
const CLAUSES: [&[&str]; 2] = [
    &["that", "which"],
    &["is", "was", "has", "are", "were", "have", "had"],
];

/// Number of counted blocks and words, and number of times that each habit occurs in them.
#[derive(Debug, Default)]
struct Counts {
    blocks: u32,
    words: u32,
    openers: u32,
    speech: u32,
    clauses: u32,
    is_to: u32,
    quaint: u32,
}

impl Counts {
    fn add(&mut self, text: &str) {
        let words = words(text);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let is_one_of = |among: &[&str], word: &str| among.contains(&word);
        self.blocks += 1;
        self.words += u32::try_from(words.len()).expect("few words");
        let opens = words.first().is_some_and(|word| is_one_of(OPENERS, word));
        self.openers += u32::from(opens);
        for (at, word) in words.iter().enumerate() {
            let next = words.get(at + 1).copied().unwrap_or_default();
            self.speech += u32::from(is_one_of(SPEECH, word));
            let clause = is_one_of(CLAUSES[0], word) && is_one_of(CLAUSES[1], next);
            self.clauses += u32::from(clause);
            let is = is_one_of(&["is", "are", "was", "were"], word);
            self.is_to += u32::from(is && next == "to");
            let mut quaint = QUAINT.iter();
            self.quaint += u32::from(quaint.any(|phrase| words[at..].starts_with(phrase)));
        }
    }

    /// Returns the habits that exceed their bounds.
    fn excesses(&self) -> Vec<Excess> {
        let (blocks, words) = (f64::from(self.blocks), f64::from(self.words));
        let rates = [
            (
                "question words first, in 100 blocks",
                self.openers,
                100.0 / blocks,
                3.0,
            ),
            (
                "verbs of people, in 1,000 words",
                self.speech,
                1_000.0 / words,
                1.0,
            ),
            (
                "\"that is\", \"that has\" and the like",
                self.clauses,
                1_000.0 / words,
                3.0,
            ),
            ("\"is to\"", self.is_to, 1_000.0 / words, 0.5),
            ("phrases of long ago", self.quaint, 1_000.0 / words, 1.0),
        ];
        let rates = rates.into_iter().map(|(habit, count, each, bound)| Excess {
            habit,
            rate: f64::from(count) * each,
            bound,
        });
        rates.filter(|found| found.bound < found.rate).collect()
    }
}

/// A habit that occurs too often.
struct Excess {
    habit: &'static str,
    rate: f64,
    bound: f64,
}

impl fmt::Debug for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {:.1}, at most {}",
            self.habit, self.rate, self.bound
        )
    }
}

/// Returns the words in lower case. Code in backticks is one word.
fn words(text: &str) -> Vec<String> {
    let spans = text.split('`').enumerate();
    let plain = spans.map(|(at, span)| if at % 2 == 0 { span } else { "x" });
    let plain = plain.collect::<String>().to_lowercase();
    let words = plain.split(|c: char| !c.is_ascii_alphabetic() && c != '\'');
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// Returns the text of a comment line, if `line` is one.
fn comment<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    let text = line.trim_start().strip_prefix(mark)?;
    Some(text.trim_start_matches(['/', '!']).trim())
}

/// Joins lines to blocks. A block ends before an empty line, and before `None`, a line without a
/// comment. Omits code between fences.
fn blocks<'a>(lines: impl Iterator<Item = Option<&'a str>>) -> Vec<String> {
    let (mut blocks, mut block, mut fenced) = (Vec::new(), String::new(), false);
    for line in lines.chain([None]) {
        let text = line.unwrap_or_default();
        let is_fence = text.starts_with("```");
        fenced = line.is_some() && (fenced ^ is_fence);
        let is_text = !fenced && !is_fence && !text.starts_with(['#', '|', '[', '<']);
        if is_text && !text.is_empty() {
            block.push_str(text);
            block.push(' ');
        } else if !block.is_empty() {
            blocks.push(std::mem::take(&mut block));
        }
    }
    blocks
}

/// Returns all files with comments, each with the mark that begins a comment.
fn sources() -> impl Iterator<Item = (PathBuf, &'static str)> {
    let folders = [
        "runtime/src",
        "macros/src",
        "cli",
        "tests/src",
        "tests/tests",
        "examples",
        "benches",
    ];
    let kinds = [("rs", "//"), ("lua", "--"), ("sql", "--")];
    folders.into_iter().flat_map(move |folder| {
        kinds.into_iter().flat_map(move |(ending, mark)| {
            let found = files(&root().join(folder), ending).into_iter();
            found.map(move |file| (file, mark))
        })
    })
}

fn comments() -> Counts {
    let mut counts = Counts::default();
    for (file, mark) in sources() {
        let text = read(&file);
        let lines = text.lines().map(|line| comment(line, mark));
        for block in blocks(lines) {
            counts.add(&block);
        }
    }
    counts
}

/// Fails if a comment is wider than the code, whose width `rustfmt` checks. Code between fences, a
/// row of a table and a link cannot be wrapped.
#[test]
fn comments_have_at_most_100_columns() {
    let mut wide = Vec::new();
    for (file, mark) in sources() {
        let mut fenced = false;
        for (at, line) in read(&file).lines().enumerate() {
            let Some(text) = comment(line, mark) else {
                continue;
            };
            fenced ^= text.starts_with("```");
            if !fenced && !text.starts_with(['|', '[']) && 100 < line.chars().count() {
                wide.push(format!("{}:{}", file.display(), at + 1));
            }
        }
    }
    assert!(wide.is_empty(), "{wide:#?}");
}

/// Fails if a habit of writing that makes comments hard to read occurs too often.
#[test]
fn comments_are_easy_to_read() {
    let counts = comments();
    assert!(5_000 < counts.blocks, "{counts:?}");
    let excesses = counts.excesses();
    assert!(excesses.is_empty(), "{excesses:#?}");
}

/// Fails if a habit of writing that makes pages hard to read occurs too often.
#[test]
fn pages_are_easy_to_read() {
    let mut counts = Counts::default();
    for page in pages() {
        // Entries of the changelog are written once and not revised.
        if !page.ends_with("CHANGELOG.md") {
            let text = read(&page);
            let paragraphs = blocks(text.lines().map(|line| Some(line.trim())));
            for paragraph in paragraphs {
                counts.add(&paragraph);
            }
        }
    }
    assert!(400 < counts.blocks, "{counts:?}");
    // A paragraph of a page may open with "When …", so openers do not count.
    counts.openers = 0;
    let excesses = counts.excesses();
    assert!(excesses.is_empty(), "{excesses:#?}");
}

/// Fails if the check misses a word or phrase that makes text hard to read, or counts one in code.
#[test]
fn bad_habits_are_detected() {
    let found = |text: &str| {
        let mut counts = Counts::default();
        counts.add(text);
        counts.excesses().len()
    };
    assert_eq!(found("The lock is released."), 0);
    assert_eq!(found("Whether the lock is held."), 1);
    assert_eq!(found("The store tells a call."), 1);
    assert_eq!(found("A call that was refused."), 1);
    assert_eq!(found("The call is to wait."), 1);
    assert_eq!(found("It has a clock of its own."), 1);
    assert_eq!(found("The events `told` and `which is`."), 0);
    let code = ["/// One.", "/// ```", "/// told", "/// ```", "fn two() {}"];
    let lines = code.map(|line| comment(line, "//"));
    assert_eq!(blocks(lines.into_iter()), ["One. "]);
}
