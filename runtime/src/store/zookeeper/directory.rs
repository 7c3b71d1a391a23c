//! The directory of a lock: its znodes, in the order of their sequence numbers.

use super::failure;
use super::live::Made;
use super::names::{Number, number};
use crate::store::session::service::Trouble;

pub(super) struct Directory {
    pub(super) path: String,
    pub(super) is_there: bool,
    pub(super) znodes: Vec<(Number, String)>,
}

impl Directory {
    pub(super) fn first(&self) -> Option<&str> {
        let (_, name) = self.znodes.first()?;
        Some(name)
    }

    /// Returns the position of a created znode in the directory, counted from 0.
    pub(super) fn place(&self, made: &Made) -> Option<usize> {
        self.znodes.iter().position(|(_, name)| *name == made.name)
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }
}

/// Builds a directory from the names of its znodes. Fails if a name does not follow the recipe for
/// an exclusive lock of Curator (a Java client library). Also fails if the directory has used up
/// its sequence numbers.
pub(super) fn directory(path: &str, names: Vec<String>) -> Result<Directory, Trouble> {
    let mut znodes = Vec::with_capacity(names.len());
    for name in names {
        match number(&name) {
            Some(number) if number.is_worn_out() => return Err(failure::worn_out(path).into()),
            Some(number) => znodes.push((number, name)),
            None => return Err(failure::foreign(path, &name).into()),
        }
    }
    znodes.sort_unstable_by_key(|(number, _)| *number);
    Ok(Directory {
        path: path.to_owned(),
        is_there: true,
        znodes,
    })
}
