//! The house: files import each other in no circle, and a reader can take in each of them at once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::{files, read, root};

/// No production file has more lines.
const LINES: usize = 450;

/// The runtime has no more files beside its folders.
const FLAT: usize = 14;

/// The modules of one crate by their paths, such as `store::redis`, each with those that it names.
/// What only tests compile is not in it.
type Modules = BTreeMap<String, Module>;

struct Module {
    file: PathBuf,
    named: BTreeSet<String>,
}

/// Reads a crate from its root file on, as the compiler does.
fn modules(lib: &Path) -> Modules {
    let mut modules = Modules::new();
    let folder = lib.parent().expect("a folder");
    read_module(&mut modules, lib, folder, "");
    modules
}

fn read_module(modules: &mut Modules, file: &Path, folder: &Path, name: &str) {
    let tokens = read(file).parse().expect("Rust");
    let mut source = Source {
        name: name.to_owned(),
        named: BTreeSet::new(),
        children: Vec::new(),
    };
    source.read(tokens);
    let module = Module {
        file: file.to_owned(),
        named: source.named,
    };
    modules.insert(name.to_owned(), module);
    for (child, path) in source.children {
        let inside = folder.join(&child);
        let file = match path {
            Some(path) => file.parent().expect("a folder").join(path),
            None if inside.join("mod.rs").exists() => inside.join("mod.rs"),
            None => folder.join(format!("{child}.rs")),
        };
        let folder = match file.file_name() {
            Some(last) if last == "mod.rs" => file.parent().expect("a folder").to_owned(),
            _ => inside,
        };
        read_module(modules, &file, &folder, &joined(name, &child));
    }
}

/// One file while it is read.
struct Source {
    name: String,
    named: BTreeSet<String>,
    /// The modules that it declares, each with the path that an attribute gives it.
    children: Vec<(String, Option<String>)>,
}

impl Source {
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
                    }
                }
                // `$crate` is in the code of a macro, which expands elsewhere.
                TokenTree::Punct(sign) if sign.as_char() == '$' => at += 1,
                TokenTree::Ident(word) if word == "mod" => {
                    if let (Some(TokenTree::Ident(child)), Some(TokenTree::Punct(_))) =
                        (tokens.get(at), tokens.get(at + 1))
                    {
                        self.children.push((child.to_string(), path.take()));
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

    /// Reads a path, or a tree of paths, that goes on at `at`. Returns where it ends.
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
                _ => return at,
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

/// Whether an attribute leaves its item to builds for tests.
fn is_for_tests(attribute: &Group) -> bool {
    let text = attribute.stream().to_string().replace(' ', "");
    text.starts_with("cfg(test")
        || text.starts_with("cfg(any(test,")
        || text.starts_with("cfg(all(test,")
}

/// The file that `#[path = "file"]` names.
fn path_of(attribute: &Group) -> Option<String> {
    let text = attribute.stream().to_string();
    let path = text.strip_prefix("path = \"")?;
    Some(path.trim_end_matches('"').to_owned())
}

/// Where the next item begins.
fn after_item(tokens: &[TokenTree], from: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Punct(sign) => matches!(sign.as_char(), ';' | ','),
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    };
    let end = tokens[from..].iter().position(ends);
    end.map_or(tokens.len(), |end| from + end + 1)
}

fn joined(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}::{name}"),
    }
}

fn parent(path: &str) -> String {
    path.rsplit_once("::")
        .map_or_else(String::new, |(parent, _)| parent.to_owned())
}

/// The innermost module on the path. A path goes on with the names of items.
fn module_of(modules: &Modules, path: &str) -> String {
    let mut path = path.to_owned();
    while !path.is_empty() && !modules.contains_key(&path) {
        path = parent(&path);
    }
    path
}

/// Which module imports which. A module and those inside of it are one thing in this: a folder's
/// `mod.rs` names its files, and they name it.
fn imports(modules: &Modules) -> BTreeMap<String, BTreeSet<String>> {
    let is_inside = |inner: &str, outer: &str| {
        outer.is_empty() || inner == outer || inner.starts_with(&format!("{outer}::"))
    };
    let imports = modules.iter().map(|(name, module)| {
        let named = module.named.iter().map(|path| module_of(modules, path));
        let apart = named.filter(|other| !is_inside(name, other) && !is_inside(other, name));
        (name.clone(), apart.collect())
    });
    imports.collect()
}

/// The same for the folders of a crate, and the files beside them.
fn rooms(imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    let room = |name: &str| name.split("::").next().unwrap_or_default().to_owned();
    let mut rooms = BTreeMap::<String, BTreeSet<String>>::new();
    for (name, named) in imports.iter().filter(|(name, _)| !name.is_empty()) {
        let apart = named.iter().map(|other| room(other));
        let apart = apart.filter(|other| *other != room(name));
        rooms.entry(room(name)).or_default().extend(apart);
    }
    rooms
}

/// A circle, if there is one: each imports the next, and the last the first.
fn circle(imports: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    imports.keys().find_map(|start| way_back(imports, start))
}

/// The shortest way from `start` to itself.
fn way_back(imports: &BTreeMap<String, BTreeSet<String>>, start: &str) -> Option<Vec<String>> {
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

/// The root files of the crates that are checked for circles.
const CRATES: [&str; 5] = [
    "runtime/src/lib.rs",
    "macros/src/lib.rs",
    "cli/src/main.rs",
    "benches/src/main.rs",
    "tests/src/lib.rs",
];

#[test]
fn files_and_folders_import_each_other_in_no_circle() {
    for lib in CRATES.map(|lib| root().join(lib)) {
        let modules = modules(&lib);
        assert!(modules.len() > 5, "{}: {}", lib.display(), modules.len());
        let imports = imports(&modules);
        assert_eq!(circle(&imports), None, "files of {}", lib.display());
        assert_eq!(
            circle(&rooms(&imports)),
            None,
            "folders of {}",
            lib.display()
        );
    }
}

#[test]
fn no_production_file_is_longer_than_a_reader_takes_in() {
    for lib in PRODUCTION.map(|lib| root().join(lib)) {
        for module in modules(&lib).values() {
            let lines = read(&module.file).lines().count();
            let file = module.file.display();
            assert!(lines <= LINES, "{file} has {lines} lines; split it");
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

/// The checks see a circle of files and one of folders, and leave tests alone.
#[test]
fn a_circle_is_seen() {
    let read = |name: &str, text: &str| {
        let mut source = Source {
            name: name.to_owned(),
            named: BTreeSet::new(),
            children: Vec::new(),
        };
        source.read(text.parse().expect("Rust"));
        let module = Module {
            file: PathBuf::new(),
            named: source.named,
        };
        (name.to_owned(), module)
    };
    let house = |last: &str| {
        imports(&Modules::from([
            read("", "mod a; mod b;"),
            read("a", "pub mod one;"),
            read(
                "a::one",
                "use super::{self, One}; fn f() -> crate::b::two::Two { }",
            ),
            read("b", "pub mod two; pub mod three;"),
            read("b::two", "use super::three::{Three, inner::{self, Four}};"),
            read("b::three", last),
        ]))
    };
    let sound = house(
        "#[cfg(test)] mod tests { use crate::a::one::One; } use super::Bee; \
         macro_rules! m { () => { $crate::a::one::One } }",
    );
    assert_eq!((circle(&sound), circle(&rooms(&sound))), (None, None));
    let files = house("fn log() { info!(one = %crate::a::one::One) }");
    let found = ["a::one", "b::two", "b::three"].map(str::to_owned);
    assert_eq!(circle(&files), Some(found.to_vec()));
    let folders = house("use crate::a::A;");
    assert_eq!(circle(&folders), None);
    assert_eq!(
        circle(&rooms(&folders)),
        Some(["a", "b"].map(str::to_owned).to_vec())
    );
}
