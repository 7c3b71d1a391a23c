//! A client's record of each critical section, in a format that every language can write.
//!
//! A file consists of 40-byte records, each five little-endian 64-bit integers: task, asked,
//! entered, left, released. The last four are stamps of `CLOCK_MONOTONIC` in nanoseconds. So the
//! harness has the critical sections of all processes on one clock, and can detect overlaps without
//! relying on the clients.

use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

const FIELDS: usize = 5;
const SIZE: usize = FIELDS * 8;

/// One critical section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    /// The task's number, counted from 0 in each process.
    pub(crate) task: u64,
    /// Time of the request for the lock.
    pub(crate) asked: u64,
    /// Beginning of the section.
    pub(crate) entered: u64,
    /// End of the section.
    pub(crate) left: u64,
    /// Time at which the release was confirmed.
    pub(crate) released: u64,
}

impl Record {
    fn to_bytes(self) -> [u8; SIZE] {
        let fields = [
            self.task,
            self.asked,
            self.entered,
            self.left,
            self.released,
        ];
        let mut bytes = [0; SIZE];
        for (place, field) in bytes.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let mut fields = [0; FIELDS];
        for (field, place) in fields.iter_mut().zip(bytes.chunks_exact(8)) {
            *field = u64::from_le_bytes(place.try_into().unwrap_or_default());
        }
        let [task, asked, entered, left, released] = fields;
        Self {
            task,
            asked,
            entered,
            left,
            released,
        }
    }
}

/// Writes a file of records.
pub(crate) fn write(path: &Path, records: impl IntoIterator<Item = Record>) -> io::Result<()> {
    let mut file = BufWriter::new(fs::File::create(path)?);
    for record in records {
        file.write_all(&record.to_bytes())?;
    }
    file.flush()
}

/// Reads a file of records.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Record>> {
    let bytes = fs::read(path)?;
    if bytes.len() % SIZE != 0 {
        let text = format!("{} is cut off: {} bytes", path.display(), bytes.len());
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(bytes.chunks_exact(SIZE).map(Record::from_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_can_be_read_back() {
        let path = std::env::temp_dir().join(format!("leasehold-record-{}", std::process::id()));
        let record = |task| Record {
            task,
            asked: 1,
            entered: u64::MAX,
            left: 3,
            released: 4,
        };
        write(&path, [record(0), record(7)]).expect("a file can be written");
        let records = read(&path).expect("it can be read");
        fs::remove_file(&path).expect("it can be removed");
        assert_eq!(records, [record(0), record(7)]);
    }
}
