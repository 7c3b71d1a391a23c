//! Reads the names of all tests of a program from the program's files.

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::{Group, TokenStream, TokenTree};

use super::house::{file_of, joined, path_of};
use super::{read, root};

/// The macros of `tests/src/stores.rs` that generate tests, each with its stores. A macro generates
/// a module for each store, and in each module a test for each name in its arguments.
const FOR_STORES: [(&str, &[&str]); 4] = [
    (
        "on_every_store",
        &["memory", "redis", "postgres", "etcd", "zookeeper"],
    ),
    ("on_every_store_of_leases", &["memory", "redis", "postgres"]),
    ("on_etcd", &["etcd"]),
    ("on_zookeeper", &["zookeeper"]),
];

/// Returns the tests of a program with their modules, as `cargo test -- --list` prints them. Tests
/// with `#[ignore]`, and tests from macros that `made_by` does not handle, are missing.
pub(super) fn tests_of(main: &str) -> BTreeSet<String> {
    let main = root().join(main);
    let folder = main.parent().expect("a folder");
    let mut tests = BTreeSet::new();
    read_file(&mut tests, &main, folder, "");
    tests
}

fn read_file(tests: &mut BTreeSet<String>, file: &Path, folder: &Path, name: &str) {
    let tokens = read(file).parse().expect("Rust");
    read_tokens(tests, file, folder, name, tokens);
}

fn read_tokens(
    tests: &mut BTreeSet<String>,
    file: &Path,
    folder: &Path,
    name: &str,
    tokens: TokenStream,
) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let (mut path, mut is_test, mut is_ignored) = (None, false, false);
    for (at, token) in tokens.iter().enumerate() {
        let (second, third) = (tokens.get(at + 1), tokens.get(at + 2));
        match (token, second, third) {
            (TokenTree::Punct(sign), Some(TokenTree::Group(attribute)), _)
                if sign.as_char() == '#' =>
            {
                path = path.or_else(|| path_of(attribute));
                is_test |= marks_a_test(attribute);
                is_ignored |= attribute.stream().to_string().starts_with("ignore");
            }
            (TokenTree::Ident(word), Some(TokenTree::Ident(child)), third) if word == "mod" => {
                let child = child.to_string();
                let inside = joined(name, &child);
                if let Some(TokenTree::Group(inline)) = third {
                    let folder = folder.join(child);
                    read_tokens(tests, file, &folder, &inside, inline.stream());
                } else {
                    let (file, folder) = file_of(file, folder, &child, path.take());
                    read_file(tests, &file, &folder, &inside);
                }
                path = None;
            }
            (TokenTree::Ident(word), Some(TokenTree::Ident(function)), _) if word == "fn" => {
                if is_test && !is_ignored {
                    tests.insert(joined(name, &function.to_string()));
                }
                (is_test, is_ignored) = (false, false);
            }
            (
                TokenTree::Ident(called),
                Some(TokenTree::Punct(sign)),
                Some(TokenTree::Group(of)),
            ) if sign.as_char() == '!' => {
                let made = made_by(&called.to_string(), of);
                tests.extend(made.iter().map(|test| joined(name, test)));
            }
            _ => {}
        }
    }
}

/// True for `#[test]`, `#[tokio::test(…)]` and `#[rstest]`.
fn marks_a_test(attribute: &Group) -> bool {
    let text = attribute.stream().to_string();
    let path = text.split('(').next().unwrap_or_default().trim_end();
    let is_path = path
        .chars()
        .all(|c| c.is_alphanumeric() || ": _".contains(c));
    is_path && path.ends_with("test")
}

/// Returns the tests that a macro generates from its arguments.
fn made_by(called: &str, given: &Group) -> Vec<String> {
    let tokens: Vec<TokenTree> = given.stream().into_iter().collect();
    let colon = tokens.iter().position(is_colon);
    let before = colon.map_or(&[][..], |colon| &tokens[..colon]);
    let after = colon.map_or(&[][..], |colon| &tokens[colon + 1..]);
    if let Some((_, stores)) = FOR_STORES.iter().find(|(name, _)| *name == called) {
        let stores: Vec<_> = stores.iter().map(|store| (*store).to_owned()).collect();
        return each(&stores, &words(&tokens));
    }
    match called {
        "on_stores" | "on_stopped" => each(&words(before), &words(after)),
        "on_one_thread" | "on_two_workers" => words(after),
        "requirements" => labels(&tokens),
        "ways_out" => [labels(&tokens), ways_out()].concat(),
        _ => Vec::new(),
    }
}

/// Returns `store::name` for each store and each name.
fn each(stores: &[String], names: &[String]) -> Vec<String> {
    let of = |store: &String| names.iter().map(move |name| joined(store, name)).collect();
    stores.iter().flat_map::<Vec<_>, _>(of).collect()
}

fn is_colon(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(sign) if sign.as_char() == ':')
}

/// Returns all identifiers, including those in brackets.
fn words(tokens: &[TokenTree]) -> Vec<String> {
    let words = tokens.iter().flat_map(|token| match token {
        TokenTree::Ident(word) => vec![word.to_string()],
        TokenTree::Group(group) => words(&group.stream().into_iter().collect::<Vec<_>>()),
        _ => Vec::new(),
    });
    words.collect()
}

/// Returns each identifier directly before a colon. In the arguments of some macros, these
/// identifiers are the names of the tests.
fn labels(tokens: &[TokenTree]) -> Vec<String> {
    let labels = tokens.windows(2).filter(|pair| is_colon(&pair[1]));
    let labels = labels.filter(|pair| matches!(pair[0], TokenTree::Ident(_)));
    labels.map(|pair| pair[0].to_string()).collect()
}

/// Returns the tests that `ways_out!` generates for each store: one for each way in which an
/// annotated function can end.
fn ways_out() -> Vec<String> {
    let file = read(&root().join("tests/tests/behaviour/bodies/exits/mod.rs"));
    let (_, file) = file.split_once("macro_rules! ways_out").expect("the macro");
    let named = file.lines().filter_map(|line| {
        let function = line.trim().strip_prefix("fn ");
        if let Some(name) = function.and_then(|function| function.strip_suffix("() {")) {
            return (!name.starts_with('$')).then(|| name.to_owned());
        }
        let (name, way) = line.trim().strip_suffix(',')?.split_once(": ")?;
        let is_way = way.starts_with(char::is_uppercase) && way.chars().all(char::is_alphabetic);
        is_way.then(|| name.to_owned())
    });
    let named: Vec<_> = named.collect();
    assert!(10 < named.len(), "{named:?}");
    named
}

/// Fails if `tests_of` finds other tests in this program than the program's option `--list` prints.
/// Also fails if `tests_of` misses or invents a test that a macro of `behaviour` generates.
#[test]
fn the_names_match_those_of_the_programs() {
    let own = tests_of("tests/tests/docs.rs");
    let this = "test_names::the_names_match_those_of_the_programs";
    assert!(own.contains(this), "{own:?}");
    let listed = std::process::Command::new(std::env::current_exe().expect("a program"))
        .arg("--list")
        .output();
    let listed = String::from_utf8(listed.expect("it lists its tests").stdout).expect("text");
    let listed = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
    assert_eq!(own, listed);
    let behaviour = tests_of("tests/tests/behaviour/main.rs");
    for made in [
        "kinds::several_keys::etcd::several_keys_are_taken_all_or_nothing",
        "kinds::several_keys::cluster::several_keys_are_taken_all_or_nothing",
        "leases::stopped_servers::redlock::a_short_stop_costs_no_lease",
        "deployments::zookeeper::faults::a_long_silence_ends_a_lease",
        "bodies::exits::memory::early_return",
        "bodies::exits::memory::all_workers_are_blocked",
        "bodies::exits::redis::the_lock_is_stolen",
    ] {
        assert!(behaviour.contains(made), "{made}");
    }
    for missing in [
        "bodies::exits::memory::the_lock_is_stolen",
        "leases::stopped_servers::broken_leases_are_detected",
    ] {
        assert!(!behaviour.contains(missing), "{missing}");
    }
}
