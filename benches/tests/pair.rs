//! Checks that a pair (an acquire and a release) costs the client no more than
//! docs/performance/results.md publishes. `scripts/check` runs this test with an optimized build.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// Maximum ratio of a measured figure to the published one.
const MOST: f64 = 1.1;

/// Fails if a pair costs more than a tenth above the published figures.
#[test]
fn a_pair_costs_no_more_than_published() {
    let file = std::env::temp_dir().join(format!("leasehold-pair-{}.json", std::process::id()));
    let ended = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["--rows", "pair", "--contestants", "leasehold", "--json"])
        .arg(&file)
        .output()
        .expect("the harness starts");
    assert!(ended.status.success(), "{ended:?}");
    let text = std::fs::read_to_string(&file).expect("the harness writes its results");
    std::fs::remove_file(&file).expect("the file can be removed");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect();
    let published = published();
    for (metric, published) in ["instructions", "allocations"].into_iter().zip(published) {
        let line = lines.iter().find(|line| line["metric"] == metric);
        let measured = line.and_then(|line| line["median"].as_f64());
        let measured = measured.expect("the row has this metric");
        assert!(
            measured <= published * MOST,
            "a pair takes {measured:.1} {metric}, and {published} are published"
        );
    }
}

/// Returns the published instructions and allocations of a pair.
fn published() -> [f64; 2] {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/performance/results.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let (_, table) = page.split_once("**`pair`**").expect("the row is published");
    let line = table.lines().find(|line| line.starts_with("| leasehold |"));
    let cells = line.expect("leasehold has a line").split('|').skip(2);
    let mut figures = cells.map(|cell| {
        let figure = cell.replace(',', "");
        figure.trim().parse().expect("a figure")
    });
    [(); 2].map(|()| figures.next().expect("two figures"))
}
