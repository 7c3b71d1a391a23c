//! Tests that run the example programs `blocking` and `leader` as processes.

use std::path::PathBuf;
use std::process::Command;

/// Returns the path of an example. Cargo builds the examples together with the tests of the
/// workspace, but does not pass their paths to the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    let profile = test.ancestors().nth(2).expect("target/<profile>/deps");
    let program = profile.join("examples").join(name);
    assert!(
        program.exists(),
        "{} is missing; `cargo build -p leasehold-examples --examples` makes it",
        program.display()
    );
    program
}

fn output(name: &str) -> String {
    let output = Command::new(example(name)).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    text
}

/// Fails if a `main` without a runtime cannot lock, or if two of its threads are inside the lock
/// together.
#[test]
fn main_without_a_runtime() {
    let text = output("blocking");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines.iter().filter(|line| line.contains("begins")).count(),
        3,
        "{text}"
    );
    // Between the beginning and the end of one body, no other body begins.
    for pair in lines.chunks_exact(2).take(3) {
        assert!(
            pair[0].contains("begins") && pair[1].contains("is written"),
            "{text}"
        );
    }
    assert!(text.contains("refused: "), "{text}");
}

/// Fails unless both instances in the example `leader` lead, first instance 1 and then instance 2.
#[test]
fn one_leads_after_the_other() {
    let text = output("leader");
    let first = text.find("instance 1 leads").expect("the first leads");
    let second = text.find("instance 2 leads").expect("the second leads");
    assert!(first < second, "{text}");
}
