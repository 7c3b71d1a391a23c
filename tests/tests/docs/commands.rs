//! Checks that each command with `--test`, in pages and scripts, runs at least one test.

use std::fs;
use std::path::PathBuf;

use super::test_names::tests_of;
use super::{files, pages, read, root};

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
    let texts: Vec<PathBuf> = pages().into_iter().chain(scripts).collect();
    let mut count = 0;
    for file in texts.iter().filter(|file| file.is_file()) {
        for line in read(file).lines() {
            for (program, filter) in named(line) {
                let main = main_of(program);
                // `tests_of` ignores some macros that generate tests. The name of a test from such
                // a macro must occur in the file of the test's module.
                assert!(
                    tests_of(&main).iter().any(|test| test.contains(filter))
                        || has_module(&main, filter),
                    "{}: no test of `{program}` has `{filter}` in its name",
                    file.display()
                );
                count += 1;
            }
        }
    }
    assert!(15 < count, "only {count} commands found");
}

/// Finds each `--test PROGRAM` in a line. Returns the program and the next word of the command,
/// which selects tests by their names. `NAME` at the end of that word stands for any text.
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

/// Returns the path of a test program's main file, relative to the project's root.
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

/// True if `filter` is a module path and a name, and the module's file in the program's folder
/// contains the name.
fn has_module(main: &str, filter: &str) -> bool {
    let (path, name) = filter.rsplit_once("::").unwrap_or((filter, ""));
    let main = root().join(main);
    let modules = files(main.parent().expect("a folder"), "rs");
    let path = path.replace("::", "/");
    let mut modules = modules
        .iter()
        .filter(|file| file.with_extension("").ends_with(&path));
    modules.any(|file| read(file).contains(name))
}
