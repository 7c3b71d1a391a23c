//! Checks the contents of the published packages.

use std::process::Command;

use super::{links, prose, read, root};

/// The packages with their folders.
const PUBLISHED: [(&str, &str); 3] = [
    ("leasehold-macros", "macros"),
    ("leasehold", "runtime"),
    ("leasehold-cli", "cli"),
];

/// All files directly in a package's root folder. Cargo generates the first four.
const FILES: [&str; 7] = [
    ".cargo_vcs_info.json",
    "Cargo.lock",
    "Cargo.toml",
    "Cargo.toml.orig",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
];

/// Fails if the README of a package has a link that is broken outside the repository.
#[test]
fn readmes_of_packages_have_no_relative_links() {
    for (package, folder) in PUBLISHED {
        let folder = root().join(folder);
        let manifest = read(&folder.join("Cargo.toml"));
        assert!(manifest.contains("\nreadme = \"README.md\"\n"), "{package}");
        let text = prose(&read(&folder.join("README.md")));
        let relative = links(&text).find(|link| !link.starts_with("https://"));
        assert_eq!(relative, None, "README.md of {package}");
    }
}

/// Fails if a package lacks a licence or its README, or contains files that users do not need.
#[test]
fn packages_contain_what_users_need() {
    for (package, folder) in PUBLISHED {
        let listed = Command::new(env!("CARGO"))
            .args([
                "package",
                "--list",
                "--offline",
                "--allow-dirty",
                "-p",
                package,
            ])
            .current_dir(root())
            .output()
            .expect("cargo starts");
        let listed = String::from_utf8(listed.stdout).expect("text");
        let (inside, beside): (Vec<_>, Vec<_>) =
            listed.lines().partition(|path| path.contains('/'));
        assert_eq!(beside, FILES, "{package}");
        let useful = |path: &str| match path.split_once('/') {
            Some(("src", path)) => !path.contains("test") || path.starts_with("kit/"),
            Some(("docs", _)) => package == "leasehold",
            _ => false,
        };
        let useless: Vec<_> = inside.iter().filter(|path| !useful(path)).collect();
        assert!(useless.is_empty(), "{package}: {useless:?}");
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let copy = read(&root().join(folder).join(licence));
            assert_eq!(copy, read(&root().join(licence)), "{package}");
        }
    }
}
