//! Build script of the expansion tests. It writes two macros that forbid, in a module, every lint
//! of this compiler and of its clippy. rustc ignores the lints of clippy, and clippy checks both
//! kinds.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Lints about a whole crate. A module cannot forbid them.
const OF_CRATES: [&str; 13] = [
    "confusable_idents",
    "ill_formed_attribute_input",
    "linker_messages",
    "macro_expanded_macro_exports_accessed_by_absolute_paths",
    "mixed_script_confusables",
    "non_ascii_idents",
    "rust_2021_prefixes_incompatible_syntax",
    "rust_2024_guarded_string_incompatible_syntax",
    "text_direction_codepoint_in_comment",
    "text_direction_codepoint_in_literal",
    "uncommon_codepoints",
    "unknown_crate_types",
    "unused_crate_dependencies",
];

/// Other lints that are not forbidden, each with its reason.
const EXCEPTIONS: [(&str, &str); 8] = [
    ("unknown_lints", "some lints need a nightly compiler"),
    (
        "clippy::arbitrary_source_item_ordering",
        "is about items of the test",
    ),
    (
        "clippy::missing_trait_methods",
        "is about impls of the test",
    ),
    (
        "clippy::pub_with_shorthand",
        "is about `pub(super)`, as rustfmt writes it",
    ),
    ("clippy::question_mark_used", "is about `?` in a body"),
    (
        "clippy::redundant_pub_crate",
        "is the opposite of `unreachable_pub`",
    ),
    ("clippy::single_call_fn", "is about functions of the test"),
    (
        "clippy::std_instead_of_alloc",
        "is about imports of the test",
    ),
];

/// Pairs of lints with opposite demands. Each of the two macros forbids one lint of a pair.
const OPPOSITES: [(&str, &str); 1] = [("clippy::implicit_return", "clippy::needless_return")];

fn main() {
    println!("cargo::rerun-if-env-changed=RUSTC");
    let rustc = PathBuf::from(env::var_os("RUSTC").expect("cargo sets it"));
    let lints = lints_of(&rustc).expect("rustc lists its lints");
    let clippy = lints_of(&clippy(&rustc));
    assert!(clippy.is_some() || !under_clippy(), "clippy lists no lints");
    let has_clippy = clippy.is_some();
    let lints = clippy.unwrap_or(lints);
    let is_known = |lint: &&str| {
        lints.iter().any(|known| known == lint) || !has_clippy && lint.starts_with("clippy::")
    };
    let named = OF_CRATES
        .iter()
        .chain(EXCEPTIONS.iter().map(|(lint, _)| lint));
    let gone = named.filter(|lint| !is_known(lint)).collect::<Vec<_>>();
    assert!(gone.is_empty(), "no longer a lint: {gone:?}");
    let (first, second): (Vec<_>, Vec<_>) = OPPOSITES.into_iter().unzip();
    let macros =
        forbidding("forbidden", &lints, &second) + &forbidding("forbidden_too", &lints, &first);
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(folder.join("forbidden.rs"), macros).expect("the folder can be written");
}

/// True if `cargo clippy` runs this build script.
fn under_clippy() -> bool {
    let wrapper = env::var_os("RUSTC_WORKSPACE_WRAPPER");
    wrapper.is_some_and(|wrapper| Path::new(&wrapper).ends_with("clippy-driver"))
}

/// Returns the path of the clippy that belongs to this compiler.
fn clippy(rustc: &Path) -> PathBuf {
    let output = Command::new(rustc).args(["--print", "sysroot"]).output();
    let sysroot = output.expect("rustc starts").stdout;
    let sysroot = String::from_utf8(sysroot).expect("a path in UTF-8");
    PathBuf::from(sysroot.trim()).join("bin/clippy-driver")
}

/// Lists every lint in the help of a compiler. Returns `None` if there is no such compiler.
fn lints_of(compiler: &Path) -> Option<Vec<String>> {
    let output = Command::new(compiler).args(["-W", "help"]).output().ok()?;
    let help = String::from_utf8(output.stdout).ok()?;
    let lint = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, level) = (words.next()?, words.next()?);
        let is_lint = ["allow", "warn", "deny"].contains(&level) && name != "warnings";
        is_lint.then(|| name.replace('-', "_"))
    };
    let lints: Vec<String> = help.lines().filter_map(lint).collect();
    (lints.len() > 100).then_some(lints)
}

/// Returns a macro that forbids all of these lints in an item, except for `opposites`, `EXCEPTIONS`
/// and `OF_CRATES`.
fn forbidding(name: &str, lints: &[String], opposites: &[&str]) -> String {
    let named = EXCEPTIONS.map(|(exception, _)| exception);
    let excepted = |lint: &str| named.contains(&lint) || OF_CRATES.contains(&lint);
    let forbidden = lints.iter().map(String::as_str);
    let forbidden = forbidden.filter(|lint| !excepted(lint) && !opposites.contains(lint));
    let forbidden = forbidden.collect::<Vec<_>>().join(", ");
    format!(
        "macro_rules! {name} {{
    ($module:item) => {{
        #[forbid({forbidden})]
        $module
    }};
}}
"
    )
}
