//! Runs the program as its users do, each time on a new PostgreSQL database.

use std::process::{Command, Output};

use leasehold_tests::postgres::Postgres;

fn run(arguments: &[&str]) -> (Output, String) {
    let database = Postgres::shared().database();
    let output = Command::new(env!("CARGO_BIN_EXE_leasehold-exact-commits"))
        .args(["--store", &database.url(), "--seconds", "5"])
        .args(arguments)
        .output();
    let output = output.expect("cargo built the program");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{printed}{}", String::from_utf8_lossy(&output.stderr));
    (output, printed)
}

/// Returns the number before the words `what` in the output.
fn count(printed: &str, what: &str) -> u64 {
    let (before, _) = printed.split_once(what).expect(what);
    let number = before.split([' ', ';', ',']).rfind(|word| !word.is_empty());
    number.and_then(|number| number.parse().ok()).expect(what)
}

/// Fails if an addition is lost although each transaction calls `leasehold.verify`. Also fails if
/// no lease ended too early, because the run would then prove nothing.
#[test]
fn no_addition_is_lost() {
    let (output, printed) = run(&[]);
    assert!(output.status.success());
    assert_eq!(count(&printed, " lost"), 0);
    assert!(0 < count(&printed, " of them after their lease"));
    assert!(0 < count(&printed, " refused"));
}

/// Runs the clerks without `leasehold.verify`. Fails if no addition is lost, because the test above
/// would then prove nothing.
#[test]
fn additions_are_lost_without_verify() {
    let (output, printed) = run(&["--without-verify"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(0 < count(&printed, " lost"));
    assert_eq!(count(&printed, " refused"), 0);
}
