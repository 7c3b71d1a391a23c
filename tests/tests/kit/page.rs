//! Checks that the code in `docs/testing.md` is compiled and run here.

const PAGE: &str = include_str!("../../../docs/testing.md");
const RECIPES: &str = include_str!("recipes.rs");

/// Joins all lines, because the code on the page may have another indentation.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Fails if the page shows code that no test runs.
#[test]
fn the_code_on_the_page_is_taken_from_the_recipes() {
    let recipes = in_one_line(RECIPES);
    let blocks: Vec<_> = PAGE.split("```rust,ignore\n").skip(1).collect();
    for block in &blocks {
        let (code, _) = block.split_once("```").expect("a block ends");
        let code = in_one_line(code);
        assert!(recipes.contains(&code), "not in a recipe: {code}");
    }
    assert!(
        10 <= blocks.len(),
        "only {} blocks were found",
        blocks.len()
    );
    assert!(
        !PAGE.contains("```rust\n"),
        "every block of code is compared"
    );
}

/// Fails if the page has no recipe for one of these topics.
#[test]
fn the_page_has_all_recipes() {
    for heading in [
        "Contention",
        "Loss",
        "Outage",
        "Timing",
        "Idempotency",
        "Tests side by side",
        "rstest",
        "mockall",
        "Paused time",
        "Never outside of the lock",
        "A real server",
    ] {
        assert!(
            PAGE.contains(&format!("\n## {heading}\n")),
            "no recipe for {heading}"
        );
    }
}
