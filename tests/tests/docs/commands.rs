//! Checks that each command of a page or a script that names tests runs at least one.

use std::fs;
use std::path::PathBuf;

use super::test_names::tests_of;
use super::{pages, read, root};

/// The folders with test programs.
const FOLDERS: [&str; 5] = [
    "tests/tests",
    "cli/tests",
    "benches/tests",
    "examples/order_service/tests",
    "examples/services/tests",
];

#[test]
fn commands_name_tests_that_exist() {
    let scripts = fs::read_dir(root().join("scripts")).expect("a folder");
    let scripts = scripts.map(|entry| entry.expect("an entry").path());
    let files: Vec<PathBuf> = pages().into_iter().chain(scripts).collect();
    let mut count = 0;
    for file in files.iter().filter(|file| file.is_file()) {
        for line in read(file).lines() {
            for (program, filter) in named(line) {
                let tests = tests_of(&main_of(program));
                assert!(
                    tests.iter().any(|test| test.contains(filter)),
                    "{}: no test of `{program}` has `{filter}` in its name",
                    file.display()
                );
                count += 1;
            }
        }
    }
    assert!(15 < count, "only {count} commands found");
}

/// Returns each `--test PROGRAM`, with the word behind it that selects tests by their names. `NAME`
/// in such a word stands for any text.
fn named(line: &str) -> Vec<(&str, &str)> {
    let programs = line.split("--test ").skip(1).map(|rest| {
        let command = rest.split(['`', ')', '|', '#']).next().unwrap_or_default();
        let mut words = command.split_whitespace();
        let program = words.next().unwrap_or_default();
        let filter = words.find(|word| *word != "--").unwrap_or_default();
        let filter = if filter.starts_with('-') { "" } else { filter };
        (program, filter.trim_end_matches("NAME"))
    });
    programs.collect()
}

/// Returns the main file of a test program, from the project's root.
fn main_of(program: &str) -> String {
    let files = FOLDERS.iter().flat_map(|folder| {
        [
            format!("{folder}/{program}.rs"),
            format!("{folder}/{program}/main.rs"),
        ]
    });
    let mut files = files.filter(|file| root().join(file).exists());
    files
        .next()
        .unwrap_or_else(|| panic!("no test program `{program}`"))
}
