//! Names the process and the library of a connection, for `CLIENT LIST`.

use std::sync::LazyLock;

use redis::{Cmd, cmd};

use crate::host::host;

/// Name and version of the library, for the server (`CLIENT SETINFO`, Redis 7.2).
const LIBRARY: (&str, &str) = ("leasehold", env!("CARGO_PKG_VERSION"));

/// Name of a connection, `leasehold:host:pid`. A lock's value contains the same host and pid.
static NAME: LazyLock<String> = LazyLock::new(|| {
    let host: String = host().chars().map(shown).collect();
    format!("leasehold:{host}:{}", std::process::id())
});

/// Replaces white space and characters outside ASCII, which a server refuses in names.
fn shown(character: char) -> char {
    if character.is_ascii_graphic() {
        character
    } else {
        '-'
    }
}

/// Returns the commands that name the process and the library.
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
    fn the_connection_name_is_one_word_with_the_process() {
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
