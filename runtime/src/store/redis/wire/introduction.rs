//! How a connection shows in `CLIENT LIST`: the process that it belongs to, and the library.

use std::sync::LazyLock;

use redis::{Cmd, Pipeline, RedisConnectionInfo, cmd};

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

/// `settings` that name the library. The crate sends the name with the log-in and ignores the
/// answer.
pub(crate) fn tell_library(settings: RedisConnectionInfo) -> RedisConnectionInfo {
    settings.set_lib_name(LIBRARY.0, LIBRARY.1)
}

/// Names the connection, as the first command of a pipeline. Its answer is ignored: a server that
/// does not know the command, or does not permit it, works all the same.
fn name() -> Cmd {
    cmd("CLIENT").arg("SETNAME").arg(&*NAME).to_owned()
}

/// `questions` behind the name. The first answer is that to the name.
pub(crate) fn introduced(questions: &Pipeline) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(1 + questions.len());
    pipeline.add_command(name());
    for question in questions.cmd_iter() {
        pipeline.add_command(question.clone());
    }
    pipeline
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
