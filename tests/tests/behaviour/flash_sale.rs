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
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output, said)
}

/// Returns the number of sold items in the row that begins with `name`.
fn sold(said: &str, name: &str) -> u32 {
    let row = said.lines().find(|line| line.starts_with(name));
    let row = row.unwrap_or_else(|| panic!("no row `{name}` in:\n{said}"));
    let number = row[name.len()..].split_whitespace().next();
    number
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

#[test]
fn only_the_lock_prevents_overselling_in_memory() {
    let (output, said) = flash_sale(&[]);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(sold(&said, "without lock") > 100, "{said}");
    assert_eq!(sold(&said, "with lock"), 100, "{said}");
    assert!(said.contains("exactly 100 items were sold"), "{said}");
}

/// Returns the bar of the sale `name`, which follows the table.
fn bar<'a>(said: &'a str, name: &str) -> &'a str {
    let mut rows = said.lines().filter(|line| line.starts_with(name));
    let row = rows.nth(1);
    let row = row.unwrap_or_else(|| panic!("no bar `{name}` in:\n{said}"));
    row[name.len()..].trim()
}

/// Fails if the drawing and the table show different results.
#[test]
fn only_the_unlocked_sale_marks_items_sold_twice() {
    let (_, said) = flash_sale(&["--buyers", "60", "--stock", "20"]);
    assert!(!said.contains('\u{1b}'), "colours in a file: {said}");
    let without = bar(&said, "without lock");
    assert!(without.contains('✗'), "{said}");
    assert_eq!(without.chars().count(), 60, "{said}");
    let with = format!("{}{}", "■".repeat(20), "·".repeat(40));
    assert_eq!(bar(&said, "with lock"), with, "{said}");
    assert!(said.contains("no speed to compare with"), "{said}");
}

#[test]
fn no_color_overrides_all_color_settings() {
    let arguments = ["--buyers", "60", "--stock", "20"];
    let forced = ("CLICOLOR_FORCE", "1");
    let (_, said) = flash_sale_with(&[forced], &arguments);
    assert!(
        bar(&said, "without lock").contains("\u{1b}[1;31m✗"),
        "{said}"
    );
    assert!(!bar(&said, "with lock").contains("\u{1b}[1;31m"), "{said}");
    let (_, said) = flash_sale_with(&[forced, ("NO_COLOR", "1")], &arguments);
    assert!(!said.contains('\u{1b}'), "{said}");
}

#[test]
fn several_processes_sell_exactly_on_redis() {
    let server = Server::start();
    let arguments = ["--processes", "3", "--buyers", "150", "--stock", "30"];
    let (output, said) = flash_sale(&[&["--store", &server.url()], &arguments[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(sold(&said, "without lock") > 30, "{said}");
    assert_eq!(sold(&said, "with lock"), 30, "{said}");
}

#[test]
fn several_processes_on_memory_are_refused_with_advice() {
    let (output, said) = flash_sale(&["--processes", "4"]);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("lives in one process"), "{said}");
    assert!(said.contains("--store redis://127.0.0.1/"), "{said}");
}

#[test]
fn an_unavailable_store_is_an_error_without_a_result() {
    let (output, said) = flash_sale(&["--store", "redis://127.0.0.1:1/"]);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let (output, said) = flash_sale(&["--store", "postgres://127.0.0.1/"]);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("`memory://`"), "{said}");
}
