//! Tests of the example `flash_sale`, run from the command line.

use std::path::PathBuf;
use std::process::{Command, Output};

use leasehold_tests::server::Server;

/// Returns the path of the example. Cargo builds the examples together with the tests of their
/// package, but does not pass their path to the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    let profile = test.ancestors().nth(2).expect("target/<profile>/deps");
    let program = profile.join("examples").join("flash_sale");
    assert!(
        program.exists(),
        "{} is missing; `cargo build --examples` makes it",
        program.display()
    );
    program
}

fn flash_sale(arguments: &[&str]) -> (Output, String) {
    flash_sale_with(&[], arguments)
}

/// Runs the example with these variables, and without inherited variables that control colours.
fn flash_sale_with(variables: &[(&str, &str)], arguments: &[&str]) -> (Output, String) {
    let output = Command::new(program())
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .envs(variables.iter().copied())
        .args(arguments)
        .output()
        .expect("it starts");
    let printed = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output, printed)
}

/// Returns the number of sold items in the row that begins with `name`.
fn sold(printed: &str, name: &str) -> u32 {
    let row = printed.lines().find(|line| line.starts_with(name));
    let row = row.unwrap_or_else(|| panic!("no row `{name}` in:\n{printed}"));
    let number = row[name.len()..].split_whitespace().next();
    number
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

#[test]
fn only_the_lock_prevents_overselling_in_memory() {
    let (output, printed) = flash_sale(&[]);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(sold(&printed, "without lock") > 100, "{printed}");
    assert_eq!(sold(&printed, "with lock"), 100, "{printed}");
    assert!(printed.contains("exactly 100 items were sold"), "{printed}");
}

/// Returns the bar of the sale `name`. The bars are printed below the table, in rows with the same
/// names.
fn bar<'a>(printed: &'a str, name: &str) -> &'a str {
    let mut rows = printed.lines().filter(|line| line.starts_with(name));
    let row = rows.nth(1);
    let row = row.unwrap_or_else(|| panic!("no bar `{name}` in:\n{printed}"));
    row[name.len()..].trim()
}

/// Fails unless the bar without a lock marks items sold twice, and the bar with the lock marks
/// none. Also fails if the output contains colours, although it is not a terminal.
#[test]
fn only_the_unlocked_sale_marks_items_sold_twice() {
    let (_, printed) = flash_sale(&["--buyers", "60", "--stock", "20"]);
    assert!(!printed.contains('\u{1b}'), "colours in a file: {printed}");
    let without = bar(&printed, "without lock");
    assert!(without.contains('✗'), "{printed}");
    assert_eq!(without.chars().count(), 60, "{printed}");
    let with = format!("{}{}", "■".repeat(20), "·".repeat(40));
    assert_eq!(bar(&printed, "with lock"), with, "{printed}");
    assert!(printed.contains("no speed to compare with"), "{printed}");
}

#[test]
fn no_color_overrides_all_color_settings() {
    let arguments = ["--buyers", "60", "--stock", "20"];
    let forced = ("CLICOLOR_FORCE", "1");
    let (_, printed) = flash_sale_with(&[forced], &arguments);
    assert!(
        bar(&printed, "without lock").contains("\u{1b}[1;31m✗"),
        "{printed}"
    );
    assert!(
        !bar(&printed, "with lock").contains("\u{1b}[1;31m"),
        "{printed}"
    );
    let (_, printed) = flash_sale_with(&[forced, ("NO_COLOR", "1")], &arguments);
    assert!(!printed.contains('\u{1b}'), "{printed}");
}

#[test]
fn several_processes_sell_exactly_on_redis() {
    let server = Server::start();
    let arguments = ["--processes", "3", "--buyers", "150", "--stock", "30"];
    let (output, printed) = flash_sale(&[&["--store", &server.url()], &arguments[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(sold(&printed, "without lock") > 30, "{printed}");
    assert_eq!(sold(&printed, "with lock"), 30, "{printed}");
}

#[test]
fn several_processes_on_memory_are_refused_with_advice() {
    let (output, printed) = flash_sale(&["--processes", "4"]);
    assert_eq!(output.status.code(), Some(2), "{printed}");
    assert!(printed.contains("lives in one process"), "{printed}");
    assert!(printed.contains("--store redis://127.0.0.1/"), "{printed}");
}

#[test]
fn an_unavailable_store_is_an_error_without_a_result() {
    let (output, printed) = flash_sale(&["--store", "redis://127.0.0.1:1/"]);
    assert_eq!(output.status.code(), Some(2), "{printed}");
    let (output, printed) = flash_sale(&["--store", "postgres://127.0.0.1/"]);
    assert_eq!(output.status.code(), Some(2), "{printed}");
    assert!(printed.contains("`memory://`"), "{printed}");
}
