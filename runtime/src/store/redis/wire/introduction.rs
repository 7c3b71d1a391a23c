//! How a connection shows in `CLIENT LIST`: the process that it belongs to, and the library.

use std::sync::LazyLock;

use redis::{Cmd, cmd};

use crate::host::host;

/// What the server shows as the library and its version (`CLIENT SETINFO`, Redis 7.2).
const LIBRARY: (&str, &str) = ("leasehold", env!("CARGO_PKG_VERSION"));

/// `leasehold:host:pid`: the process that a lock's value names, too.
static NAME: LazyLock<String> = LazyLock::new(|| {
    let host: String = host().chars().map(shown).collect();
    format!("leasehold:{host}:{}", std::process::id())
});

/// A server accepts neither white space nor characters outside ASCII.
fn shown(character: char) -> char {
    if character.is_ascii_graphic() {
        character
    } else {
        '-'
    }
}

/// The commands that name the process and the library.
pub(crate) fn names() -> [Cmd; 3] {
    let (library, version) = LIBRARY;
    let client = |words: [&str; 2], value: &str| cmd("CLIENT").arg(&words).arg(value).to_owned();
    [
        cmd("CLIENT").arg("SETNAME").arg(&*NAME).to_owned(),
        client(["SETINFO", "LIB-NAME"], library),
        client(["SETINFO", "LIB-VER"], version),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_one_word_that_names_the_process() {
        assert!(NAME.chars().all(|character| character.is_ascii_graphic()));
        let own = format!(":{}", std::process::id());
        assert!(
            NAME.starts_with("leasehold:") && NAME.ends_with(&own),
            "{}",
            *NAME
        );
        assert_eq!("a b\nü{}".chars().map(shown).collect::<String>(), "a-b--{}");
    }
}
