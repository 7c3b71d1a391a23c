//! Placeholders in the style of other tools, such as `${id}`, here called foreign. In a key they
//! would be literal text, so all calls would share one lock. So each one is an error, which names
//! the placeholder to write instead.

use crate::diag::{Message, closest};
use crate::printf;

/// Names that a key of the function can insert, and names that the checked key inserts.
pub(crate) struct Names<'a> {
    /// The arguments of the function, including `self`.
    pub(crate) arguments: Vec<&'a str>,
    /// The first name of each placeholder of the checked key, such as `order` of `<order.id>`.
    pub(crate) inserted: Vec<&'a str>,
}

impl Names<'_> {
    fn is_argument(&self, name: &str) -> bool {
        let name = name.strip_prefix("r#").unwrap_or(name);
        self.arguments.contains(&name)
    }

    /// True if `name` is an argument that the key does not insert. The key may then be one lock for
    /// all values of this argument.
    fn is_left_out(&self, name: &str) -> bool {
        let plain = name.strip_prefix("r#").unwrap_or(name);
        self.is_argument(name) && !self.inserted.contains(&plain)
    }

    fn has_arguments(&self) -> bool {
        self.arguments.iter().any(|name| *name != "self")
    }

    /// Returns the advice for a placeholder without a name, such as `{}` or `%s`.
    fn example(&self) -> String {
        match self.arguments.iter().find(|name| **name != "self") {
            Some(name) => format!("to insert an argument write its name: `<{name}>`"),
            None if self.is_argument("self") => {
                "to insert a field write its name: `<self.region>`".to_owned()
            }
            None => "the function has no arguments; for other values use an expression: \
                 `key = format!(…)`"
                .to_owned(),
        }
    }
}

/// A piece of the literal text of a key.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(crate) text: &'a str,
    /// True if the text comes directly after a placeholder.
    pub(crate) continues: bool,
}

/// Returns an error for every foreign placeholder in one piece of literal text.
pub(crate) fn find(text: Text<'_>, names: &Names<'_>) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut at = 0;
    while let Some(character) = text.text[at..].chars().next() {
        let place = Place {
            before: text.text[..at].chars().next_back(),
            continues: text.continues,
            rest: &text.text[at..],
        };
        match place.read(names) {
            Some((length, message)) => {
                messages.push(message);
                at += length;
            }
            None => at += character.len_utf8(),
        }
    }
    // In `{}:{}`, both placeholders have the same error. It is reported once.
    messages.dedup_by(|one, other| one.help == other.help);
    if messages.is_empty() && names.inserted.is_empty() {
        messages.extend(bare(text.text, names));
    }
    messages
}

/// A foreign placeholder, if there is one: its length in bytes, and the error to report.
type Found = Option<(usize, Message)>;

/// A position in the literal text of a key.
struct Place<'a> {
    before: Option<char>,
    continues: bool,
    rest: &'a str,
}

/// Opening and closing brackets, as in `${…}`. A longer opening comes before a shorter one that
/// begins in the same way.
const BRACKETS: [(&str, &str); 13] = [
    ("\\(", ")"),
    ("{{", "}}"),
    ("${", "}"),
    ("#{", "}"),
    ("%{", "}"),
    ("@{", "}"),
    ("{", "}"),
    ("%(", ")s"),
    ("$(", ")"),
    ("[[", "]]"),
    ("[", "]"),
    ("(", ")"),
    ("<", ">"),
];

/// Opening brackets that only placeholders of other tools have. A name behind one of them is an
/// error even if it is not an argument.
const UNMISTAKABLE: [&str; 3] = ["{{", "${", "%("];

/// Characters before a name, as in `$id`.
const SIGILS: [char; 7] = ['$', '#', '@', '*', '&', '%', ':'];

impl Place<'_> {
    fn read(&self, names: &Names<'_>) -> Found {
        self.brackets(names)
            .or_else(|| self.conversion(names))
            .or_else(|| self.question_mark(names))
            .or_else(|| self.sigil(names))
    }

    /// Reads `${id}`, `{id}`, `[id]`, and numbers as in `${1}` and `{1}`.
    fn brackets(&self, names: &Names<'_>) -> Found {
        BRACKETS.iter().find_map(|(open, close)| {
            let (inside, _) = self.rest.strip_prefix(open)?.split_once(close)?;
            let length = open.len() + inside.len() + close.len();
            let written = &self.rest[..length];
            let message = bracketed(open, inside.trim(), written, names)?;
            Some((length, message))
        })
    }

    /// Reads `$id`, `:id`, `$1`.
    fn sigil(&self, names: &Names<'_>) -> Found {
        let sigil = self.rest.chars().next().filter(|c| SIGILS.contains(c))?;
        let after = &self.rest[sigil.len_utf8()..];
        // After a word or a placeholder, a colon is not a sigil: it separates parts of the key.
        let separates = match self.before {
            None => self.continues,
            Some(before) => is_word(before) || matches!(before, ')' | ']' | '}' | '>'),
        };
        if sigil == ':' && separates {
            return None;
        }
        if sigil == '$' && names.has_arguments() && names.inserted.is_empty() {
            let digits = after.chars().take_while(char::is_ascii_digit).count();
            if digits == 1 && !after[1..].starts_with(is_word) {
                return Some((2, nameless(&self.rest[..2], names)));
            }
        }
        let path = path(after)?;
        let root = root(path);
        let closing = usize::from(sigil == '%' && after[path.len()..].starts_with('%'));
        let written = &self.rest[..sigil.len_utf8() + path.len() + closing];
        names
            .is_left_out(root)
            .then(|| (written.len(), literal(written, path, root)))
    }

    /// Reads `%s`, `%Y`. These are mistakes even in a function without arguments.
    fn conversion(&self, names: &Names<'_>) -> Found {
        let written = printf::conversion(self.rest)?;
        Some((written.len(), nameless(written, names)))
    }

    /// Reads a `?` that is a whole part of the key, as in `order:?`.
    fn question_mark(&self, names: &Names<'_>) -> Found {
        let alone = self.rest.starts_with('?')
            && !self.rest[1..].starts_with(is_word)
            && self
                .before
                .is_none_or(|before| !is_word(before) && before != '?')
            && !(self.before.is_none() && self.continues);
        (alone && names.has_arguments()).then(|| (1, nameless("?", names)))
    }
}

fn bracketed(open: &str, inside: &str, written: &str, names: &Names<'_>) -> Option<Message> {
    if open == "{" {
        return braces(inside, written, names);
    }
    let is_number = !inside.is_empty() && inside.chars().all(|c| c.is_ascii_digit());
    if is_number && UNMISTAKABLE.contains(&open) {
        return Some(nameless(written, names));
    }
    if inside.is_empty() && UNMISTAKABLE.contains(&open) {
        return Some(nameless(written, names));
    }
    let path = path(inside).filter(|path| path.len() == inside.len())?;
    let root = root(path);
    if open == "<" {
        return names.is_argument(root).then(|| escaped(path, root));
    }
    let is_mistake = if open.contains('{') {
        names.is_argument(root)
    } else {
        names.is_left_out(root)
    };
    if is_mistake {
        return Some(literal(written, path, root));
    }
    let is_unknown = UNMISTAKABLE.contains(&open) && !names.is_argument(root);
    is_unknown.then(|| unknown(written, root, names))
}

/// Returns the error for a placeholder of `format!`, such as `{id}`, `{}` or `{0}`. Other braces
/// are a hash tag of Redis Cluster.
fn braces(inside: &str, written: &str, names: &Names<'_>) -> Option<Message> {
    let (value, format) = inside.split_once(':').unwrap_or((inside, ""));
    let is_number = !value.is_empty() && value.chars().all(|c| c.is_ascii_digit());
    let nothing_inserted = names.has_arguments() && names.inserted.is_empty();
    if value.is_empty() && (inside.is_empty() || is_format(format))
        || is_number && nothing_inserted && (format.is_empty() || is_format(format))
    {
        return Some(nameless(written, names));
    }
    let value = value.trim();
    let root = root(value);
    let is_path = path(value).is_some_and(|path| path.len() == value.len());
    let is_habit = is_path && (format.is_empty() || is_format(format));
    (is_habit && names.is_argument(root)).then(|| {
        Message::new(format!(
            "`{written}` in a key is literal text (a Redis Cluster hash tag), but `{root}` is an argument"
        ))
        .help(format!(
            "to insert the argument write `<{value}>`; to make it the hash tag as well write `{{<{value}>}}`"
        ))
    })
}

/// True for a format, such as the `?` of `{id:?}`, `>5` or `02`. False for the `all` of
/// `{order:all}`, which is a valid hash tag.
fn is_format(format: &str) -> bool {
    format.contains(['?', '#', '>', '<', '0'])
}

fn literal(written: &str, path: &str, root: &str) -> Message {
    Message::new(format!(
        "`{written}` in a key is literal text, but `{root}` is an argument"
    ))
    .help(format!(
        "to insert the argument write `<{path}>`; for exactly this text write `key = KEY` with \
         `const KEY: &str`"
    ))
}

fn escaped(path: &str, root: &str) -> Message {
    Message::new(format!(
        "`<<{path}>>` in a key is the literal text `<{path}>`, but `{root}` is an argument"
    ))
    .help(format!(
        "to insert the argument write `<{path}>`; `<<` and `>>` stand for the characters themselves"
    ))
}

/// Returns the error for a placeholder without a name, such as `{}` or `%s`.
fn nameless(written: &str, names: &Names<'_>) -> Message {
    Message::new(format!(
        "`{written}` in a key is literal text: nothing fills it"
    ))
    .help(names.example())
}

fn unknown(written: &str, root: &str, names: &Names<'_>) -> Message {
    let close = closest(root, names.arguments.iter().copied()).map(|name| format!("`<{name}>`"));
    Message::new(format!(
        "`{written}` in a key is literal text: nothing fills it, and `{root}` is not an argument"
    ))
    .suggest(close, || names.example())
}

/// Returns the error for a key such as `order:id` without any placeholder, where `id` is an
/// argument. A name such as `id` or `order_id` stands for the value of one call, so the user meant
/// a placeholder. Names of other arguments, such as the `catalog` of `reprice:catalog`, may be
/// meant as text.
fn bare(text: &str, names: &Names<'_>) -> Option<Message> {
    let mut parts = text.split([':', '/', '|', '{', '}']);
    let part = parts.find(|part| {
        let last = part.rsplit('.').next().unwrap_or_default();
        path(part).is_some_and(|path| path.len() == part.len())
            && names.is_argument(root(part))
            && is_identifier(last)
    })?;
    Some(literal(part, part, root(part)))
}

/// True if a name suggests that its value identifies something.
fn is_identifier(name: &str) -> bool {
    ["id", "uuid"]
        .iter()
        .any(|word| name == *word || name.ends_with(&format!("_{word}")))
}

/// Returns a path such as `order.user_id` at the start of `text`.
fn path(text: &str) -> Option<&str> {
    let mut length = word(text)?.len();
    while let Some(member) = text[length..].strip_prefix('.').and_then(word) {
        length += 1 + member.len();
    }
    Some(&text[..length]).filter(|path| !path.starts_with(|c: char| c.is_ascii_digit()))
}

fn word(text: &str) -> Option<&str> {
    let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

fn root(path: &str) -> &str {
    path.split('.').next().unwrap_or_default()
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
#[path = "habit_tests.rs"]
mod tests;
