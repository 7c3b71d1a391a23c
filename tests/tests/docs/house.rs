//! Checks the structure of the source. Files must not import each other in a circle, production
//! files must not be too long, and most files must be in folders.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::{files, read, root};

/// Maximum number of lines of a production file.
const LINES: usize = 450;

/// Maximum number of files directly in `runtime/src`, outside its folders.
const FLAT: usize = 14;

/// The modules of one crate by their paths, such as `store::redis`. Modules compiled only for tests
/// are left out.
type Modules = BTreeMap<String, Module>;

/// The imports of each module.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[derive(Default)]
struct Module {
    /// The files of the module. There are several if Cargo features select the one to compile.
    files: Vec<PathBuf>,
    /// The paths in the code of these files, such as `pool::builder::LockPoolBuilder`. The last
    /// part of a path is the name of an item.
    named: BTreeSet<String>,
}

/// Reads all modules of a crate. Begins with the root file `lib`, and follows the `mod`
/// declarations.
fn modules(lib: &Path) -> Modules {
    let mut modules = Modules::new();
    let folder = lib.parent().expect("a folder");
    read_module(&mut modules, lib, folder, "");
    modules
}

fn read_module(modules: &mut Modules, file: &Path, folder: &Path, name: &str) {
    let tokens = read(file).parse().expect("Rust");
    let mut source = Source::new(name);
    source.read(tokens);
    let module = modules.entry(name.to_owned()).or_default();
    module.files.push(file.to_owned());
    module.named.extend(source.named);
    for (child, path) in source.children {
        let (file, folder) = file_of(file, folder, &child, path);
        read_module(modules, &file, &folder, &joined(name, &child));
    }
}

/// Returns the file of the module `child` that `file` declares, and the folder of the child's own
/// modules. `path` is the value of the declaration's `path` attribute.
pub(super) fn file_of(
    file: &Path,
    folder: &Path,
    child: &str,
    path: Option<String>,
) -> (PathBuf, PathBuf) {
    let inside = folder.join(child);
    let beside = |file: &Path| file.parent().expect("a folder").to_owned();
    match path {
        // With a `path` attribute, the child modules are in the same folder as the file,
        // independent of the file's name.
        Some(path) => (beside(file).join(&path), beside(&beside(file).join(path))),
        None if inside.join("mod.rs").exists() => (inside.join("mod.rs"), inside),
        None => (folder.join(format!("{child}.rs")), inside),
    }
}

/// The imported paths and declared modules found so far in one file.
struct Source {
    name: String,
    named: BTreeSet<String>,
    /// The declared modules, each with the path in its attribute, if any.
    children: Vec<(String, Option<String>)>,
}

impl Source {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            named: BTreeSet::new(),
            children: Vec::new(),
        }
    }

    fn read(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let (mut at, mut path) = (0, None);
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token {
                TokenTree::Punct(sign) if sign.as_char() == '#' => {
                    let Some(TokenTree::Group(attribute)) = tokens.get(at) else {
                        continue;
                    };
                    at += 1;
                    path = path.or_else(|| path_of(attribute));
                    if is_for_tests(attribute) {
                        at = after_item(&tokens, at);
                        path = None;
                    }
                }
                // A path that begins with `$crate` is skipped, because it is in a macro, which
                // expands in another module.
                TokenTree::Punct(sign) if sign.as_char() == '$' => {
                    let word = tokens.get(at);
                    at += usize::from(matches!(word, Some(TokenTree::Ident(_))));
                }
                TokenTree::Ident(word) if word == "mod" => {
                    match (tokens.get(at), tokens.get(at + 1)) {
                        (Some(TokenTree::Ident(child)), Some(TokenTree::Punct(_))) => {
                            self.children.push((child.to_string(), path.take()));
                        }
                        (Some(TokenTree::Ident(child)), Some(TokenTree::Group(inline))) => {
                            let inside = joined(&self.name, &child.to_string());
                            let outside = mem::replace(&mut self.name, inside);
                            self.read(inline.stream());
                            self.name = outside;
                            at += 2;
                        }
                        _ => {}
                    }
                }
                TokenTree::Ident(word) if is_colons(&tokens, at) => {
                    let start = match word.to_string().as_str() {
                        "crate" => String::new(),
                        "self" => self.name.clone(),
                        "super" => parent(&self.name),
                        _ => continue,
                    };
                    at = self.read_path(&tokens, at + 2, start);
                }
                TokenTree::Group(group) => self.read(group.stream()),
                TokenTree::Punct(sign) if sign.as_char() == ';' => path = None,
                _ => {}
            }
        }
    }

    /// Reads a path, or a tree of paths, that continues at `at`. Returns the position after it.
    fn read_path(&mut self, tokens: &[TokenTree], mut at: usize, mut path: String) -> usize {
        loop {
            match tokens.get(at) {
                Some(TokenTree::Ident(word)) if word == "super" => path = parent(&path),
                Some(TokenTree::Ident(word)) if word == "self" => {}
                Some(TokenTree::Ident(word)) => path = joined(&path, &word.to_string()),
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for branch in inner.split(is_comma) {
                        self.read_path(branch, 0, path.clone());
                    }
                    return at + 1;
                }
                // `*`, or the `<` of a turbofish, ends the path.
                _ => {
                    self.named.insert(path);
                    return at;
                }
            }
            at += 1;
            if !is_colons(tokens, at) {
                self.named.insert(path);
                return at;
            }
            at += 2;
        }
    }
}

fn is_comma(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(sign) if sign.as_char() == ',')
}

fn is_colons(tokens: &[TokenTree], at: usize) -> bool {
    let is_colon =
        |token: &TokenTree| matches!(token, TokenTree::Punct(sign) if sign.as_char() == ':');
    let colons = tokens.get(at..at + 2);
    colons.is_some_and(|colons| colons.iter().all(is_colon))
}

/// True if an attribute restricts its item to test builds.
fn is_for_tests(attribute: &Group) -> bool {
    let text = attribute.stream().to_string().replace(' ', "");
    let either = ["cfg(test)", "cfg(any(test,feature=\"__test\"))"];
    either.contains(&&*text) || text.starts_with("cfg(all(test,")
}

/// Returns the file in `#[path = "file"]`.
pub(super) fn path_of(attribute: &Group) -> Option<String> {
    let text = attribute.stream().to_string();
    let path = text.strip_prefix("path = \"")?;
    Some(path.trim_end_matches('"').to_owned())
}

/// Returns the position after the item that begins at `from`.
fn after_item(tokens: &[TokenTree], from: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Punct(sign) => matches!(sign.as_char(), ';' | ','),
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    };
    let end = tokens[from..].iter().position(ends);
    end.map_or(tokens.len(), |end| from + end + 1)
}

pub(super) fn joined(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}::{name}"),
    }
}

fn parent(path: &str) -> String {
    path.rsplit_once("::")
        .map_or_else(String::new, |(parent, _)| parent.to_owned())
}

/// Returns the innermost module on the path. The parts of the path after the module are names of
/// items.
fn module_of(modules: &Modules, path: &str) -> String {
    let mut path = path.to_owned();
    while !path.is_empty() && !modules.contains_key(&path) {
        path = parent(&path);
    }
    path
}

/// Returns the imports of each module. Imports between a module and its inner modules are left out,
/// because a folder's `mod.rs` names its files, and these files use its definitions.
fn imports(modules: &Modules) -> Imports {
    let imports = modules.iter().map(|(name, module)| {
        let named = module.named.iter().map(|path| module_of(modules, path));
        let apart = named.filter(|other| !is_inside(name, other) && !is_inside(other, name));
        (name.clone(), apart.collect())
    });
    imports.collect()
}

fn is_inside(inner: &str, outer: &str) -> bool {
    outer.is_empty() || inner == outer || inner.starts_with(&format!("{outer}::"))
}

/// Returns the imports between the folders and files directly in `folder`. The imports of all files
/// in a folder count as imports of that folder.
fn rooms(imports: &Imports, folder: &str) -> Imports {
    let depth = folder.split("::").filter(|part| !part.is_empty()).count();
    let room = |name: &str| {
        let parts: Vec<&str> = name.split("::").take(depth + 1).collect();
        (name != folder && is_inside(name, folder)).then(|| parts.join("::"))
    };
    let mut rooms = Imports::new();
    for (name, named) in imports {
        let Some(from) = room(name) else { continue };
        let to = named.iter().filter_map(|other| room(other));
        let to: Vec<String> = to.filter(|to| *to != from).collect();
        rooms.entry(from).or_default().extend(to);
    }
    rooms
}

/// Returns a circle of imports, if there is one: among all files, or among the folders and files
/// directly in one folder.
fn circle_at_any_level(imports: &Imports) -> Option<Vec<String>> {
    let folders = imports.keys().map(|folder| rooms(imports, folder));
    circle(imports).or_else(|| folders.into_iter().find_map(|rooms| circle(&rooms)))
}

/// Returns the names that a crate's own files import from the crate's root instead of the defining
/// module. Such an import does not name the defining module, so the check could miss a circle.
fn through_the_root(modules: &Modules) -> Vec<String> {
    let through = modules.iter().flat_map(|(name, module)| {
        let named = module.named.iter();
        let items = named.filter(|path| path.starts_with(char::is_uppercase));
        items.map(move |path| format!("{name}: crate::{path}"))
    });
    through.collect()
}

/// Returns a circle, if there is one: each module imports the next, and the last imports the first.
fn circle(imports: &Imports) -> Option<Vec<String>> {
    imports.keys().find_map(|start| way_back(imports, start))
}

/// Returns the shortest path of imports from `start` back to `start`.
fn way_back(imports: &Imports, start: &str) -> Option<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut ways = vec![vec![start.to_owned()]];
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for next in way
                .last()
                .and_then(|last| imports.get(last))
                .into_iter()
                .flatten()
            {
                if next == start {
                    return Some(way);
                }
                if seen.insert(next.clone()) {
                    longer.push([&way[..], std::slice::from_ref(next)].concat());
                }
            }
        }
        ways = longer;
    }
    None
}

/// The root files of the crates that users compile.
const PRODUCTION: [&str; 3] = ["runtime/src/lib.rs", "macros/src/lib.rs", "cli/src/main.rs"];

/// The root files of the crates checked for circles.
const CRATES: [&str; 5] = [
    "runtime/src/lib.rs",
    "macros/src/lib.rs",
    "cli/src/main.rs",
    "benches/src/main.rs",
    "tests/src/lib.rs",
];

#[test]
fn files_and_folders_have_no_import_cycles() {
    for lib in CRATES.map(|lib| root().join(lib)) {
        let modules = modules(&lib);
        assert!(modules.len() > 5, "{}: {}", lib.display(), modules.len());
        let imports = imports(&modules);
        assert_eq!(circle_at_any_level(&imports), None, "{}", lib.display());
        let hidden = through_the_root(&modules);
        assert!(hidden.is_empty(), "{}: {hidden:?}", lib.display());
    }
}

#[test]
fn production_files_have_a_maximum_length() {
    for lib in PRODUCTION.map(|lib| root().join(lib)) {
        for module in modules(&lib).values() {
            for file in &module.files {
                let (lines, file) = (read(file).lines().count(), file.display());
                assert!(lines <= LINES, "{file} has {lines} lines; split it");
            }
        }
    }
}

#[test]
fn most_files_are_in_folders() {
    let folder = root().join("runtime/src");
    let all = files(&folder, "rs");
    let flat = all
        .iter()
        .filter(|file| file.parent() == Some(&*folder))
        .count();
    assert!(
        flat <= FLAT,
        "{flat} files beside the folders of runtime/src; there is room for {FLAT}"
    );
}

/// Fails if the check misses a circle of files or of folders, in any spelling of an import. Also
/// fails if the check counts an import in test code or a `$crate` path in a macro.
#[test]
fn an_import_cycle_is_detected() {
    let sound = [
        "",
        "use super::Bee; use super::two::Two;",
        "#[cfg(test)] mod tests { use crate::a::one::One; }",
        "#[cfg(test)] #[path = \"other.rs\"] mod tests; fn f() { super::super::super::g() }",
        "macro_rules! m { () => { $crate::a::one::One } }",
    ];
    for text in sound {
        assert_eq!(circle_at_any_level(&imports_with(text)), None, "{text}");
    }
    let of_files = [
        "use crate::a::one::One;",
        "use crate::{error::Error, a::{one::{self, One}}};",
        "use crate::a::one::*;",
        "pub(in crate::b) use crate::a::one as uno;",
        "fn log() { info!(one = %crate::a::one::One) }",
        "macro_rules! m { ($(one:tt),*) => { $(crate::a::one::One)* } }",
        "fn f() { crate::a::one::<u8>() }",
        "#[derive(Debug)] struct Two(super::super::super::a::one::One);",
        "mod inline { use super::super::super::super::a::one::One; }",
        "#[cfg(any(test, feature = \"redis\"))] use crate::a::one::One;",
        "#[cfg(test)] use crate::a::Aye; use crate::a::one::One;",
    ];
    let found = ["a::one", "b::deep::two"].map(str::to_owned);
    for text in of_files {
        assert_eq!(circle(&imports_with(text)), Some(found.to_vec()), "{text}");
    }
    let of_folders = [
        ("use crate::a::three::Three;", ["a", "b"]),
        ("use crate::b::four::Four;", ["b::deep", "b::four"]),
    ];
    for (text, found) in of_folders {
        let (imports, found) = (imports_with(text), found.map(str::to_owned).to_vec());
        assert_eq!(circle(&imports), None, "{text}");
        assert_eq!(circle_at_any_level(&imports), Some(found), "{text}");
    }
}

/// Returns the imports of a crate with the folders `a` and `b`. `text` is the source of its module
/// `b::deep::two`.
fn imports_with(text: &str) -> Imports {
    let texts = [
        ("", "mod a; mod b;"),
        ("a", "pub mod one; pub mod three;"),
        ("a::one", "fn f() -> crate::b::deep::two::Two { }"),
        ("a::three", ""),
        ("b", "pub mod deep; pub mod four;"),
        ("b::deep", "pub mod two; pub mod five;"),
        ("b::deep::two", text),
        ("b::deep::five", ""),
        ("b::four", "use super::deep::five::Five;"),
    ];
    let modules = texts.map(|(name, text)| {
        let mut source = Source::new(name);
        source.read(text.parse().expect("Rust"));
        let (files, named) = (Vec::new(), source.named);
        (name.to_owned(), Module { files, named })
    });
    imports(&modules.into())
}
