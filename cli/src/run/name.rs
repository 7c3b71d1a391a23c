//! The name under which other processes see the holder: the value of `--name`, or the name of the
//! program's file.

use std::ffi::OsString;
use std::path::Path;

use leasehold::__private::Site;

use crate::args::Run;

/// Maximum number of characters of a name.
const LONGEST: usize = 60;

/// Returns the call site of the lock. The function name of this site is the name of the holder,
/// which other processes see.
pub(super) fn site(options: &Run) -> &'static Site {
    let name = options.name.clone().filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| of_program(&options.command));
    // The memory is leaked, but only once in each process.
    let site = Site::new(short(&name).leak(), file!(), line!(), "other", &|| ());
    Box::leak(Box::new(site))
}

/// Returns the name of the program's file. Everyone who can read the store sees the name, so it
/// must not contain an argument, which may be a password.
fn of_program(command: &[OsString]) -> String {
    let program = command.first();
    let program = program.and_then(|program| Path::new(program).file_name());
    program.unwrap_or_default().to_string_lossy().into_owned()
}

/// Shortens a text to `LONGEST` characters, and replaces the white space between two words by one
/// blank.
fn short(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(LONGEST) {
        None => text,
        Some(_) => text.chars().take(LONGEST - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a name contains an argument, has several lines, or is too long.
    #[test]
    fn programs_are_named_without_their_arguments() {
        let name = |command: &[&str]| {
            let command: Vec<_> = command.iter().map(OsString::from).collect();
            short(&of_program(&command))
        };
        assert_eq!(name(&["/usr/bin/mysqldump", "-phunter2"]), "mysqldump");
        assert_eq!(name(&["./a\n b"]), "a b");
        assert_eq!(name(&["/"]), "");
        let long = name(&["é".repeat(100).as_str(), "all"]);
        assert_eq!(long, format!("{}…", "é".repeat(59)));
    }
}
