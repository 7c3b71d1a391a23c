//! Finds the name under which the user's crate depends on `leasehold`. A crate may rename the
//! dependency in its own `Cargo.toml`. The manifest is read line by line, because a parser would
//! cost several dependencies.

use std::env;
use std::path::PathBuf;

const PACKAGE: &str = "leasehold";

/// Dependency on `leasehold` according to a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Dependency {
    /// The dependency is named `leasehold`. This is also assumed if no manifest can be read.
    Plain,
    Renamed(String),
    /// The manifest does not mention `leasehold`: the workspace renames it, or another crate
    /// re-exports it. The user must then write the option `crate`.
    Missing,
}

/// Returns the dependency of the crate being compiled, according to its manifest.
pub(crate) fn dependency() -> Dependency {
    // The examples of `leasehold` and the unit tests of this crate belong to packages of these
    // names, whose manifests have no dependency on `leasehold`.
    let own = [PACKAGE, env!("CARGO_PKG_NAME")];
    let is_itself = env::var("CARGO_PKG_NAME").is_ok_and(|name| own.contains(&name.as_str()));
    let text = path().and_then(|path| std::fs::read_to_string(path).ok());
    match text {
        Some(text) if !is_itself => read(&text),
        _ => Dependency::Plain,
    }
}

fn path() -> Option<PathBuf> {
    let folder =
        || env::var_os("CARGO_MANIFEST_DIR").map(|dir| PathBuf::from(dir).join("Cargo.toml"));
    let path = env::var_os("CARGO_MANIFEST_PATH")
        .map(PathBuf::from)
        .or_else(folder)?;
    path.ends_with("Cargo.toml").then_some(path)
}

fn read(manifest: &str) -> Dependency {
    let mut found = Dependency::Missing;
    let mut section = "";
    for line in manifest.lines().map(|line| without_comment(line).trim()) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.split(']').next().unwrap_or_default().trim();
        }
        match entry(section, line) {
            Some(name) if name == PACKAGE => return Dependency::Plain,
            Some(name) => found = Dependency::Renamed(name.replace('-', "_")),
            None => {}
        }
    }
    found
}

/// Returns the part of a line before its comment. A `#` in quotes begins no comment.
fn without_comment(line: &str) -> &str {
    let mut quote: Option<char> = None;
    let begins = |character| match quote {
        None if matches!(character, '"' | '\'') => {
            quote = Some(character);
            false
        }
        None => character == '#',
        Some(open) => {
            quote = quote.filter(|_| character != open);
            false
        }
    };
    line.find(begins).map_or(line, |comment| &line[..comment])
}

/// Returns the name under which this line depends on `leasehold`, if it does.
fn entry<'a>(section: &'a str, line: &'a str) -> Option<&'a str> {
    if section.starts_with("workspace") {
        return None;
    }
    let renames = || {
        let plain = line.replace([' ', '\t', '\''], "").replace('"', "");
        plain.split(['{', ',', '}']).any(|part| {
            let value = part.strip_suffix(PACKAGE).unwrap_or_default();
            value == "package=" || value.ends_with(".package=")
        })
    };
    let unquote = |name: &'a str| name.trim().trim_matches(['"', '\'']);
    if let Some((_, name)) = section.rsplit_once("dependencies.") {
        let name = unquote(name);
        return (name == PACKAGE || renames()).then_some(name);
    }
    if !section.ends_with("dependencies") {
        return None;
    }
    let name = unquote(line.split(['=', '.']).next().unwrap_or_default());
    (name == PACKAGE || renames()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_dependency_is_found() {
        for manifest in [
            "[dependencies]\nleasehold = \"0.1\"",
            "[dependencies]\ntokio = \"1\"\nleasehold.workspace = true",
            "[dev-dependencies]\n\"leasehold\" = { path = \"../runtime\" }",
            "[target.'cfg(unix)'.dependencies]\nleasehold = \"0.1\"",
            "[dependencies.leasehold]\nversion = \"0.1\"",
            "[dependencies]\nlock = { package = \"leasehold\", version = \"0.1\" }\nleasehold = \"0.2\"",
            "[dependencies]\n# lock = { package = \"leasehold\", version = \"0.1\" }\nleasehold = \"0.2\"",
        ] {
            assert_eq!(read(manifest), Dependency::Plain, "{manifest}");
        }
    }

    #[test]
    fn a_renamed_dependency_is_found() {
        for manifest in [
            "[dependencies]\nmy-lock = { version = \"0.1\", package = \"leasehold\" }",
            "[dependencies]\nmy-lock={package='leasehold',version='0.1'}",
            "[dependencies.my-lock]\nversion = \"0.1\"\npackage = \"leasehold\"",
            "[target.\"cfg(unix)\".dependencies.my-lock]\npackage = \"leasehold\"",
            "[dependencies]\nmy-lock.package = \"leasehold\" # the locks\nmy-lock.version = \"0.1\"",
            "[dependencies] # of all\nmy-lock = { package = \"leasehold\", path = \"a#b\" }",
            "[dependencies]\n# leasehold = \"0.1\"\nmy-lock = { path = \"a#b\", package = \"leasehold\" }",
        ] {
            let renamed = Dependency::Renamed("my_lock".to_owned());
            assert_eq!(read(manifest), renamed, "{manifest}");
        }
    }

    #[test]
    fn a_missing_dependency_is_detected() {
        for manifest in [
            "[package]\nname = \"shop\"\n[dependencies]\nlock.workspace = true",
            "[dependencies]\nleasehold-macros = \"0.1\"",
            "[dependencies]\n# leasehold = \"0.1\"",
            "[features]\nleasehold = []",
            "[workspace.dependencies]\nlock = { package = \"leasehold\", version = \"0.1\" }",
        ] {
            assert_eq!(read(manifest), Dependency::Missing, "{manifest}");
        }
    }
}
