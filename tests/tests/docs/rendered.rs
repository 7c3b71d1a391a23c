//! Checks the README and the pages of `docs/` that rustdoc shows: their links, labels and pictures.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::{definitions, inline_links, pages, prose, read, root};

/// File with the pictures of the pages that rustdoc shows, as data URLs.
/// `PICTURES=overwrite cargo test -p leasehold-tests --test docs rendered` updates it.
const PICTURES: &str = "runtime/src/guide/pictures.md";

/// A page shown in rustdoc, and its address there.
struct Rendered {
    page: PathBuf,
    address: String,
}

fn guide() -> String {
    read(&root().join("runtime/src/guide.rs"))
}

/// Returns the README, the attribute's reference, and the pages of the module `guide`.
fn rendered() -> Vec<Rendered> {
    let mut all = vec![
        ("README.md".to_owned(), "crate".to_owned()),
        (
            "macros/src/attribute.md".to_owned(),
            "macro@crate::distributed_lock".to_owned(),
        ),
    ];
    let guide = guide();
    let (_, pages) = guide.split_once("\npages! {").expect("the list of pages");
    for line in pages.lines().take_while(|line| *line != "}") {
        if let Some((name, file)) = line.trim().split_once(": ") {
            let file = file.trim_matches(['"', ',']);
            all.push((format!("docs/{file}"), format!("crate::guide::{name}")));
        }
    }
    let rendered = all.into_iter().map(|(page, address)| Rendered {
        page: canonical(&root().join(page)),
        address,
    });
    rendered.collect()
}

fn canonical(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Fails if a page shown in rustdoc contains an inline link with a relative path, which works only
/// in the repository. Links by label work in both places, because rustdoc has a separate target for
/// each label.
#[test]
fn rendered_pages_link_by_definitions() {
    for Rendered { page, .. } in rendered() {
        let text = prose(&read(&page));
        let mut relative =
            inline_links(&text).filter(|link| !link.starts_with('#') && !link.contains("://"));
        assert_eq!(
            relative.next(),
            None,
            "{}: write `[text][label]`, define the label at the page's end, and also in \
             runtime/src/guide/links.md",
            page.display()
        );
    }
}

/// Fails if `runtime/src/guide/links.md` lacks a label of a page, or links the label to another
/// page or section.
#[test]
fn rustdoc_has_the_same_link_targets_as_the_pages() {
    let (rendered, mut compared) = (rendered(), 0);
    let links = read(&root().join("runtime/src/guide/links.md"));
    let addresses: Vec<_> = definitions(&links).collect();
    for Rendered { page, .. } in &rendered {
        let text = prose(&read(page));
        for (label, link) in definitions(&text).filter(|(_, link)| !link.contains("://")) {
            let (file, name) = link.split_once('#').unwrap_or((link, ""));
            let target = canonical(&page.with_file_name(file));
            if media_type(&target).is_some() {
                continue; // see the next test
            }
            let shown = rendered.iter().find(|shown| shown.page == target);
            let index = target.ends_with("docs/README.md");
            let expected = match (shown, name) {
                (None, _) if index => "crate::guide".to_owned(),
                (None, _) => "crate::guide#in-the-repository".to_owned(),
                (Some(shown), "") => shown.address.clone(),
                (Some(shown), name) => format!("{}#{name}", shown.address),
            };
            let defined = addresses.iter().find(|(defined, _)| *defined == label);
            let defined = defined.map(|(_, address)| *address);
            let place = format!(
                "runtime/src/guide/links.md: [{label}] of {}",
                page.display()
            );
            assert_eq!(defined, Some(expected.as_str()), "{place}");
            compared += 1;
        }
    }
    assert!(30 < compared, "only {compared} links were compared");
}

/// Fails if `runtime/src/guide/pictures.md` lacks a picture of a page, or has an old version of the
/// picture.
#[test]
fn rustdoc_contains_the_pictures_of_the_pages() {
    let mut expected = BTreeSet::new();
    for Rendered { page, .. } in rendered() {
        let text = prose(&read(&page));
        for (label, link) in definitions(&text).filter(|(_, link)| !link.contains("://")) {
            let file = page.with_file_name(link);
            if let Some(kind) = media_type(&file) {
                let data = BASE64_STANDARD.encode(fs::read(&file).expect("a picture"));
                expected.insert(format!("[{label}]: data:{kind};base64,{data}\n"));
            }
        }
    }
    assert!(3 <= expected.len(), "only {} pictures", expected.len());
    let expected = String::from_iter(expected);
    let path = root().join(PICTURES);
    if std::env::var("PICTURES").is_ok_and(|value| value == "overwrite") {
        fs::write(&path, &expected).expect("the file can be written");
    }
    assert!(
        read(&path) == expected,
        "{PICTURES} has other pictures than the pages; run `PICTURES=overwrite cargo test -p \
         leasehold-tests --test docs rendered`"
    );
}

fn media_type(file: &Path) -> Option<&'static str> {
    match file.extension()?.to_str()? {
        "png" => Some("image/png"),
        "svg" => Some("image/svg+xml"),
        _ => None,
    }
}

/// Fails if a page uses a label that it does not define.
#[test]
fn labels_are_defined() {
    for page in pages() {
        let text = prose(&read(&page));
        let defined: Vec<_> = definitions(&text)
            .map(|(label, _)| label.to_lowercase())
            .collect();
        for label in used(&text) {
            assert!(defined.contains(&label), "{}: [{label}]", page.display());
        }
    }
}

/// Returns the labels of `[text][label]` and `[label]` in a text, in lower case.
fn used(text: &str) -> Vec<String> {
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    // A bracket between backticks does not belong to a link.
    let text: String = lines.join("\n").split('`').step_by(2).collect();
    let mut used = Vec::new();
    for (at, _) in text.match_indices('[') {
        let Some((label, rest)) = text[at + 1..].split_once(']') else {
            continue;
        };
        let is_text = rest.starts_with(['(', '[']);
        let is_definition = text[..at].ends_with('\n') && rest.starts_with(':');
        if !is_text && !is_definition {
            let words: Vec<_> = label.split_whitespace().collect();
            used.push(words.join(" ").to_lowercase());
        }
    }
    used
}

/// Each page of `docs/` must be shown in rustdoc, or be listed in `guide.rs` under "In the
/// repository". Fails if a page is in neither place or in both. Also fails if a shown page is
/// missing from the list above this heading, or is excluded from the published crate.
#[test]
fn the_guide_contains_all_pages() {
    let (rendered, guide) = (rendered(), guide());
    let (for_users, _) = guide.split_once("# In the repository").expect("a heading");
    let manifest = read(&root().join("runtime/Cargo.toml"));
    let excluded = manifest
        .lines()
        .find_map(|line| line.strip_prefix("exclude = "));
    let excluded = excluded.expect("the list of what is not published");
    let excluded: Vec<_> = excluded.split('"').skip(1).step_by(2).collect();
    for page in pages() {
        let page = canonical(&page);
        let path = page
            .strip_prefix(canonical(&root()))
            .expect("it is in there");
        let path = path.to_str().expect("its name is text");
        if !path.starts_with("docs/") {
            continue;
        }
        let address = rendered.iter().find(|shown| shown.page == page);
        let shown = address.is_some();
        if let Some((_, name)) = address.and_then(|it| it.address.split_once("guide::")) {
            let listed = for_users.contains(&format!("[`{name}`]"));
            assert!(
                listed,
                "runtime/src/guide.rs: list {name} above the other pages"
            );
        }
        let named = guide.contains(&format!("//! | `{path}` |"));
        assert!(
            shown != named,
            "runtime/src/guide.rs: show {path}, or name it under \"In the repository\""
        );
        let published = !excluded.iter().any(|folder| path.starts_with(folder));
        assert!(published || !shown, "runtime/Cargo.toml excludes {path}");
    }
}
