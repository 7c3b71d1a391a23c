//! Name of the holder: the command, as others see it.

use std::ffi::OsString;
use std::path::Path;

use leasehold::__private::Site;

use crate::args::Run;

/// Maximum number of characters of a name, so that a store keeps it beside the name of the machine.
const LONGEST: usize = 60;

/// Returns the place that names this holder.
pub(super) fn site(options: &Run) -> &'static Site {
    let name = options.name.clone();
    let name = name.unwrap_or_else(|| of_command(&options.command));
    // One for each process.
    let site = Site::new(short(&name).leak(), file!(), line!(), "other", &|| ());
    Box::leak(Box::new(site))
}

/// Returns the command line in one line, with the program's name without its folder.
fn of_command(command: &[OsString]) -> String {
    let (program, arguments) = command.split_first().unzip();
    let program = program.and_then(|program| Path::new(program).file_name());
    let all = program.into_iter();
    let all = all.chain(arguments.into_iter().flatten().map(OsString::as_os_str));
    let all: Vec<_> = all.map(|one| one.to_string_lossy()).collect();
    all.join(" ")
}

/// Returns the start of a text, with one blank between two words.
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

    /// Fails if a name has several lines, or may push the name of the machine out of the store.
    #[test]
    fn command_lines_are_shortened() {
        let name = |command: &[&str]| {
            let command: Vec<_> = command.iter().map(OsString::from).collect();
            short(&of_command(&command))
        };
        assert_eq!(
            name(&["/usr/bin/send-invoices", "--all"]),
            "send-invoices --all"
        );
        assert_eq!(name(&["sh", "-c", "a |\n  b"]), "sh -c a | b");
        assert_eq!(name(&["/"]), "");
        let long = name(&["echo", &"é".repeat(100)]);
        assert_eq!(long, format!("echo {}…", "é".repeat(54)));
    }
}
