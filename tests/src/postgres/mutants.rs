//! Runs tests with a bug in the SQL of the PostgreSQL store.

use super::Postgres;
use crate::rerun;
use crate::sql_mutants;

/// Runs `test` of this program in another process with the bug `mutant`. Fails if the test passes.
///
/// # Panics
///
/// Panics if the test passes, or if there is no bug or no test of this name.
pub fn fails_with(mutant: &str, test: &str) {
    let bug = sql_mutants::variable(mutant);
    let server = Postgres::shared().bequest();
    rerun::fails_in(&[bug, (server.0, &server.1)], test);
}
