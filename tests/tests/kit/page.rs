//! Checks that the code in `docs/testing.md` is compiled and run here.

const PAGE: &str = include_str!("../../../docs/testing.md");
const RECIPES: &str = include_str!("recipes.rs");

/// The last lines of `recipes.rs`, which are not on the page.
const MORE: &str = "\n#[path = \"more_recipes.rs\"]\nmod more;\n";

/// Fails if the blocks of code on the page differ from `recipes.rs`, whose tests run here.
#[test]
fn the_blocks_on_the_page_are_a_test_program() {
    let blocks = PAGE.split("```rust,ignore\n").skip(1);
    let blocks: Vec<_> = blocks
        .map(|block| block.split_once("```\n").expect("a block ends").0)
        .collect();
    let (_, recipes) = RECIPES.split_once("\n\n").expect("the file has a comment");
    let recipes = recipes.strip_suffix(MORE).expect("its end");
    assert_eq!(blocks.join("\n"), recipes);
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
