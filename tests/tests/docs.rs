//! Checks the documentation: links, paths, examples, metrics and language. Also checks the imports
//! and the length of source files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "docs/commands.rs"]
mod commands;
#[path = "docs/examples.rs"]
mod examples;
#[path = "docs/house.rs"]
mod house;
#[path = "docs/language.rs"]
mod language;
#[path = "docs/packages.rs"]
mod packages;
#[path = "docs/promises.rs"]
mod promises;
#[path = "docs/rendered.rs"]
mod rendered;
#[path = "docs/test_names.rs"]
mod test_names;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the Markdown pages checked here: the files listed below, and all pages of `docs/`.
fn pages() -> Vec<PathBuf> {
    let mut pages = [
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "cli/README.md",
        "scripts/README.md",
        "tests/README.md",
        "tests/harness.md",
        "tests/seeded_bugs.md",
        "CHANGELOG.md",
        "macros/src/attribute.md",
    ]
    .map(|page| root().join(page))
    .to_vec();
    let docs = root().join("docs");
    let site = docs.join("site");
    let listed = files(&docs, "md").into_iter();
    // `docs/site` is left out, because it only has the table of contents of the built site.
    pages.extend(listed.filter(|page| !page.starts_with(&site)));
    pages
}

/// Returns the files with this extension in a folder and its subfolders.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == ending) {
                files.push(path);
            }
        }
    }
    files
}

/// Returns the text outside of fenced code blocks.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let outside = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    outside.collect::<Vec<_>>().join("\n")
}

/// Returns the targets of all links in a text, from inline links and from definitions of labels.
fn links(text: &str) -> impl Iterator<Item = &str> {
    inline_links(text).chain(definitions(text).map(|(_, link)| link))
}

/// Returns the target of each inline link, the text between `](` and `)`.
fn inline_links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
}

/// Returns the labels that a text defines, each with its target: `[label]: target`.
fn definitions(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = text
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.split_once("]: "));
    // A line that begins with `[text][label]: ` is not a definition.
    parts.filter(|(label, _)| !label.contains(']'))
}

/// Returns the texts between single backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns the anchor of a heading, in the form that links use.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

fn has_anchor(page: &str, name: &str) -> bool {
    let prose = prose(page);
    let mut headings = prose.lines().filter(|line| line.starts_with('#'));
    headings.any(|line| anchor(line.trim_start_matches('#').trim()) == name)
}

/// Fails if a link between pages of the repository is broken.
#[test]
fn links_between_pages_lead_somewhere() {
    let (mut broken, mut looked_at) = (Vec::new(), 0);
    for page in pages() {
        let text = read(&page);
        for link in links(&prose(&text)) {
            // Links to rustdoc items and to the web are skipped.
            let is_path = link.contains(".md") || link.contains('/') || link.starts_with('#');
            if link.contains("://") || !is_path || link.contains("::") {
                continue;
            }
            looked_at += 1;
            let (file, name) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.with_file_name("").join(file),
            };
            let leads = match name {
                "" => target.exists(),
                name => target.exists() && has_anchor(&read(&target), name),
            };
            if !leads {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(40 < looked_at, "only {looked_at} links were found");
}

/// Fails if a page of `docs/` is missing from the indexes `docs/README.md` and
/// `docs/stores/README.md`.
#[test]
fn the_index_names_all_pages() {
    let docs = root().join("docs");
    let mut indexed = Vec::new();
    for index in ["README.md", "stores/README.md"] {
        let index = docs.join(index);
        for link in links(&read(&index)) {
            indexed.extend(index.with_file_name(link).canonicalize());
        }
        indexed.push(index.canonicalize().expect("it was read"));
    }
    for page in pages() {
        let page = page.canonicalize().expect("it was found");
        let expected = page.starts_with(docs.canonicalize().expect("a folder"));
        assert!(!expected || indexed.contains(&page), "{}", page.display());
    }
}

/// Fails if a page is missing from the site that `scripts/docs` builds.
#[test]
fn the_site_has_all_pages() {
    let contents = root().join("docs/site/SUMMARY.md");
    let text = read(&contents);
    let listed = links(&text).map(|link| contents.with_file_name(link).canonicalize());
    let listed: Vec<_> = listed.map(|page| page.expect("a file")).collect();
    // `cli/README.md` is the package's page on the registry. The site has `docs/command.md`
    // instead.
    let package = root().join("cli/README.md").canonicalize().expect("a file");
    for page in pages() {
        let page = page.canonicalize().expect("it was found");
        let expected = page != package;
        assert!(!expected || listed.contains(&page), "{}", page.display());
    }
}

/// Fails if a file named in a table of `docs/architecture.md` or `docs/glossary.md` does not exist.
#[test]
fn named_files_exist() {
    for (page, least) in [("docs/architecture.md", 50), ("docs/glossary.md", 30)] {
        let text = read(&root().join(page));
        let rows = text.lines().filter(|line| line.starts_with('|'));
        let mut seen = 0;
        for path in rows.flat_map(quoted).filter(|path| {
            path.contains('/') || Path::new(path).extension().is_some_and(|end| end == "rs")
        }) {
            let places = [root().join(path), root().join("runtime/src").join(path)];
            assert!(places.iter().any(|place| place.exists()), "{page}: {path}");
            seen += 1;
        }
        assert!(least < seen, "{page} names {seen} files");
    }
}

/// Returns the names of the files and folders in a folder of tests.
fn suites(folder: &str) -> Vec<String> {
    let folder = root().join("tests/tests").join(folder);
    let entries = fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let names = paths.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    names
        .filter(|name| name != "main" && name != "mod")
        .collect()
}

/// Fails if `tests/README.md` does not list a test program, or a module of the programs `harness`
/// and `behaviour`.
#[test]
fn the_index_of_the_tests_names_all_suites() {
    let index = read(&root().join("tests/README.md"));
    let named = |name: &str| index.contains(&format!("\n| `{name}` |"));
    for name in [suites(""), suites("harness")].concat() {
        assert!(named(&name), "tests/README.md: {name}");
    }
    for name in suites("behaviour") {
        let parts = if named(&name) {
            Vec::new()
        } else {
            suites(&format!("behaviour/{name}"))
        };
        assert!(named(&name) || !parts.is_empty(), "tests/README.md: {name}");
        for part in parts {
            assert!(
                named(&format!("{name}::{part}")),
                "tests/README.md: {name}::{part}"
            );
        }
    }
}

/// Fails if the code, the docs of the module `pool` and `docs/production.md` name different
/// metrics, labels or label values.
#[test]
fn the_metrics_are_the_same_everywhere() {
    let rows = |page: &str| -> Vec<String> {
        let text = read(&root().join(page));
        let rows = text.lines().map(|line| line.trim_start_matches("/// "));
        let rows = rows.filter(|line| line.starts_with("| `leasehold_"));
        rows.map(str::to_owned).collect()
    };
    let rendered = rows("runtime/src/pool/mod.rs");
    assert_eq!(rendered, rows("docs/production.md"));
    let base = root().join("runtime/src/base");
    let files = [
        "outcome.rs",
        "reporter/meters/counts.rs",
        "reporter/meters/template.rs",
        "reporter/meters/store.rs",
    ];
    let code = files.map(|file| read(&base.join(file)));
    let tests = |code: &'_ str| code.find("#[cfg(test)]").unwrap_or(code.len());
    let code = code.each_ref().map(|code| &code[..tests(code)]);
    // A string in an attribute (`#[…]`) is the name of a feature, and not a label.
    let lines = code.iter().flat_map(|code| code.lines());
    let lines = lines.filter(|line| !line.trim_start().starts_with("#["));
    let literals = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    let literals: BTreeSet<&str> = literals.collect();
    let named: BTreeSet<&str> = rendered.iter().flat_map(|row| quoted(row)).collect();
    assert_eq!(literals, named);
    assert_eq!(rendered.len(), 11);
}
