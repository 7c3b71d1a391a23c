//! Checks that the code on two pages, the recipes and the monitoring guide, is part of the example
//! programs. So this code is compiled and tested.

use super::harness::double_submission::{CONFLICT, UNAVAILABLE};

const PAGE: &str = include_str!("../../../../docs/recipes.md");
const MONITORING: &str = include_str!("../../../../docs/monitoring/README.md");
const PROGRAMS: [&str; 12] = [
    include_str!("../../src/bin/actix_orders.rs"),
    include_str!("../../src/bin/axum_orders.rs"),
    include_str!("../../src/bin/cron_job.rs"),
    include_str!("../../src/bin/operations.rs"),
    include_str!("../../../leader.rs"),
    include_str!("../../../queued_job/handler.rs"),
    include_str!("../../../queued_job/worker.rs"),
    include_str!("../../src/bin/repositories.rs"),
    include_str!("../../src/bin/tested/main.rs"),
    include_str!("../../src/bin/tested/tests.rs"),
    include_str!("../../src/bin/tonic_orders.rs"),
    include_str!("../../src/bin/traced_orders.rs"),
];

/// The heading of the last section of the recipes. The code in this section is not compiled,
/// because no program here uses its crates.
const NOT_COMPILED: &str = "\n## SeaORM and async-graphql\n";

/// Joins a text to one line, because the page and the program may break and indent lines
/// differently.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_code_on_the_page_is_taken_from_the_programs() {
    let programs = PROGRAMS.map(in_one_line);
    let (_, traces) = MONITORING
        .split_once("## OpenTelemetry")
        .expect("it is there");
    let (recipes, _) = PAGE.split_once(NOT_COMPILED).expect("it is there");
    let blocks = [recipes, traces].map(|text| text.split("```rust,ignore\n").skip(1));
    let blocks: Vec<_> = blocks.into_iter().flatten().collect();
    for block in &blocks {
        let (code, _) = block.split_once("```").expect("a block ends");
        let code = in_one_line(code);
        let shown = programs.iter().any(|program| program.contains(&code));
        assert!(shown, "not in a program: {code}");
    }
    assert!(7 <= blocks.len(), "only {} blocks were found", blocks.len());
}

#[test]
fn the_answers_on_the_page_match_the_services() {
    for body in [CONFLICT, UNAVAILABLE] {
        assert!(PAGE.contains(body), "not on the page: {body}");
    }
}
