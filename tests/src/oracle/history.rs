//! The history: a file to which every process appends its notes.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use super::Note;

/// The beginning of every line.
const START: &str = "{\"note\":";

/// A process's handle of the file. Each note is written with a single `write`. So the notes of
/// several processes do not mix, and the notes of a killed process remain.
#[derive(Debug)]
pub struct History {
    file: File,
    path: PathBuf,
}

impl History {
    /// Opens the file, or creates it.
    ///
    /// # Panics
    ///
    /// Panics if the file cannot be opened.
    pub fn open(path: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Self {
            file: file.unwrap_or_else(|error| panic!("{}: {error}", path.display())),
            path: path.to_owned(),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a note.
    ///
    /// # Panics
    ///
    /// Panics if the file cannot be written, as on a full disk.
    pub fn note(&self, note: &Note) {
        let mut line = serde_json::to_string(note).expect("a note is JSON");
        line.push('\n');
        (&self.file)
            .write_all(line.as_bytes())
            .expect("the history can be written");
    }
}

/// A reader of a history, which may still grow.
#[derive(Debug)]
pub struct Reader {
    lines: BufReader<File>,
    part: Vec<u8>,
    torn: u64,
}

impl Reader {
    /// Opens a history at the start of the file.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self {
            lines: BufReader::with_capacity(1 << 16, File::open(path)?),
            part: Vec::new(),
            torn: 0,
        })
    }

    /// Returns the next note, or `None` at the current end of the file.
    pub fn next_note(&mut self) -> std::io::Result<Option<Note>> {
        loop {
            self.lines.read_until(b'\n', &mut self.part)?;
            if !self.part.ends_with(b"\n") {
                return Ok(None);
            }
            let line = String::from_utf8_lossy(&self.part);
            // A process killed during a write leaves a part of a note, and the next note follows on
            // the same line.
            let whole = line.rfind(START).map(|at| &line[at..]);
            let note = whole.and_then(|line| serde_json::from_str(line).ok());
            self.torn +=
                u64::from(note.is_none() || whole.is_some_and(|whole| whole.len() < line.len()));
            self.part.clear();
            if note.is_some() {
                return Ok(note);
            }
        }
    }

    /// Returns the number of notes cut off because their process was killed.
    pub fn torn(&self) -> u64 {
        self.torn
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{History, Reader};
    use crate::oracle::Note;

    /// A process killed during a write leaves an incomplete note, and the next note follows on the
    /// same line. Fails if the reader then skips the next note as well.
    #[test]
    fn an_incomplete_note_is_skipped() {
        let path = std::env::temp_dir().join(format!("torn-{}.jsonl", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let history = History::open(&path);
        let alone = |key: &str| Note::Alone {
            key: key.to_owned(),
        };
        history.note(&alone("first"));
        (&history.file)
            .write_all(b"{\"note\":\"lost\",\"ke")
            .expect("a temporary file is writable");
        history.note(&alone("second"));
        let mut reader = Reader::open(&path).expect("it is there");
        assert_eq!(reader.next_note().expect("readable"), Some(alone("first")));
        assert_eq!(reader.next_note().expect("readable"), Some(alone("second")));
        assert_eq!(reader.next_note().expect("readable"), None);
        assert_eq!(reader.torn(), 1);
        std::fs::remove_file(&path).expect("it was there");
    }
}
