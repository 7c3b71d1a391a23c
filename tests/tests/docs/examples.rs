//! Checks that every public item of `leasehold` has an example in its documentation.

use std::path::{Path, PathBuf};

use super::{files, read, root};

/// Public items without an example, each with the reason for the exception.
const WITHOUT: &[(&str, &str)] = &[];

/// Fragments of the paths of test code. The items in such a file are not public.
const NOT_PUBLIC: [&str; 3] = ["selftest/", "/tests/", "_tests.rs"];

/// The name of an item, and true if its documentation has an example.
type Item = (String, bool);

fn source() -> PathBuf {
    root().join("runtime/src")
}

/// Returns the paths that the crate and its module `testing` re-export, such as
/// `pool::builder::LockPoolBuilder`.
fn exports() -> Vec<String> {
    let of_testing = exports_of("kit/mod.rs");
    let of_testing = of_testing.into_iter().map(|path| format!("kit::{path}"));
    exports_of("lib.rs").into_iter().chain(of_testing).collect()
}

fn exports_of(file: &str) -> Vec<String> {
    let text = read(&source().join(file));
    let lines: Vec<&str> = text.lines().collect();
    let mut paths = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let hidden = at > 0 && lines[at - 1].contains("doc(hidden)");
        let Some(path) = line.strip_prefix("pub use ").filter(|_| !hidden) else {
            continue;
        };
        let path = path.trim_end_matches(';');
        let (module, names) = path.rsplit_once("::").expect("a path");
        let names = names.trim_matches(['{', '}']).split(", ");
        paths.extend(names.map(|name| format!("{module}::{name}")));
    }
    paths
}

/// Returns the file of a module such as `pool::builder`.
fn file_of(module: &str) -> PathBuf {
    let path = source().join(module.replace("::", "/"));
    let file = path.with_extension("rs");
    if file.exists() {
        file
    } else {
        path.join("mod.rs")
    }
}

/// True if the documentation above the line with index `at` has an example.
fn has_example(lines: &[&str], at: usize) -> bool {
    let above = lines[..at].iter().rev().map(|line| line.trim_start());
    let above = above.take_while(|line| line.starts_with("///") || line.starts_with("#["));
    let text: Vec<_> = above.filter_map(|line| line.strip_prefix("/// ")).collect();
    is_example(text.into_iter().rev())
}

/// True if a text has a code block that rustdoc compiles: one without a language, or one marked
/// `rust` or `no_run`.
fn is_example<'a>(text: impl Iterator<Item = &'a str>) -> bool {
    let fences = text.filter_map(|line| line.strip_prefix("```"));
    let mut begins = fences.step_by(2);
    begins.any(|language| ["", "no_run", "rust"].contains(&language))
}

/// Returns the name in a line that declares a public type or function.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("pub ")?.split(' ');
    let kinds = ["fn", "struct", "enum", "trait", "type", "macro"];
    words.find(|word| kinds.contains(word))?;
    let name = words.next()?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
}

/// Returns the public methods in a file's inherent impls of `types`. An impl of `$holder`, a
/// placeholder in the macro of `lock/call/guard.rs`, counts like an impl of such a type.
fn methods(text: &str, types: &[&str]) -> Vec<Item> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut found, mut inside) = (Vec::new(), None);
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        if let Some(implemented) = code.strip_prefix("impl ") {
            let name = implemented.trim_end_matches(" {");
            let counts = name == "$holder" || types.contains(&name);
            inside = counts.then(|| (name.to_owned(), indent));
        } else if let Some((name, outer)) = &inside {
            if indent == *outer && code == "}" {
                inside = None;
            } else if let Some(method) = declared(code).filter(|_| indent == outer + 4) {
                found.push((format!("{name}::{method}"), has_example(&lines, at)));
            }
        }
    }
    found
}

/// Returns all public items: the items that `lib.rs` and `testing` re-export, and the methods of
/// the re-exported types.
fn items() -> Vec<Item> {
    let (mut items, exports) = (Vec::new(), exports());
    let exports: Vec<_> = exports
        .iter()
        .filter_map(|path| path.rsplit_once("::"))
        .collect();
    for (module, name) in &exports {
        if *module == "leasehold_macros" {
            let text = read(&root().join("macros/src/attribute.md"));
            items.push(((*name).to_owned(), is_example(text.lines())));
            continue;
        }
        let text = read(&file_of(module));
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| declared(line) == Some(name));
        let at = at.unwrap_or_else(|| panic!("{module} declares no {name}"));
        items.push(((*name).to_owned(), has_example(&lines, at)));
    }
    let types: Vec<_> = exports.iter().map(|(_, name)| *name).collect();
    let sources = files(&source(), "rs");
    for file in sources.iter().filter(|file| is_public(file)) {
        items.extend(methods(&read(file), &types));
    }
    items
}

fn is_public(file: &Path) -> bool {
    let path = file.strip_prefix(source()).expect("it is in there");
    let path = path.to_string_lossy();
    !NOT_PUBLIC.iter().any(|part| path.contains(part))
}

/// Fails if a public type, function or method has no example in its documentation and is not listed
/// in `WITHOUT`.
#[test]
fn every_public_item_has_an_example() {
    let items = items();
    let is_excepted = |name: &str| WITHOUT.iter().any(|(excepted, _)| *excepted == name);
    let missing: Vec<_> = items
        .iter()
        .filter(|(name, shown)| !shown && !is_excepted(name))
        .collect();
    assert!(missing.is_empty(), "without an example: {missing:#?}");
    assert!(70 < items.len(), "only {} items were found", items.len());
    for (name, reason) in WITHOUT {
        let excepted = items.iter().any(|(item, shown)| item == name && !shown);
        assert!(excepted, "{name} is no exception any more: {reason}");
    }
}
