//! The key's grammar: literal text and `<placeholders>`.

use crate::diag::Message;
use crate::habit::Text;

/// Reserved word of leasehold's own keys. No other key may begin with it or have it between two
/// colons.
const RESERVED: &str = "%leasehold";
/// Maximum length of a key, in bytes.
const MAX_LEN: usize = 512;

/// A key in the syntax of the attribute: `"order:<id>"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    Value(Placeholder),
}

/// `<order.user_id>`: an argument, and the path from it to the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placeholder {
    /// Text between the angle brackets.
    pub(crate) text: String,
    pub(crate) root: String,
    pub(crate) path: Vec<Member>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Member {
    Field(String),
    Index(u32),
    Method(String),
}

impl Template {
    /// Parses a template. Later, the module `names` checks if the function has the arguments that
    /// the placeholders name.
    pub(crate) fn parse(text: &str) -> Result<Self, Vec<Message>> {
        let mut reader = Reader::default();
        reader.read(text);
        let template = Self {
            pieces: reader.pieces,
        };
        let mut errors = reader.errors;
        if errors.is_empty() {
            errors.extend(template.check());
        }
        if errors.is_empty() {
            Ok(template)
        } else {
            Err(errors)
        }
    }

    pub(crate) fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Value(placeholder) => Some(placeholder),
            Piece::Text(_) => None,
        })
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = Text<'_>> {
        let pieces = self.pieces.iter().enumerate();
        pieces.filter_map(|(index, piece)| match piece {
            Piece::Text(text) => Some(Text {
                text,
                continues: index > 0,
            }),
            Piece::Value(_) => None,
        })
    }

    fn check(&self) -> Vec<Message> {
        let mut errors = Vec::new();
        if self.pieces.is_empty() {
            errors.push(
                Message::new("the key is empty")
                    .help("name what is locked, such as \"order:<id>\""),
            );
        }
        if let Some(Piece::Text(first)) = self.pieces.first()
            && first.starts_with(RESERVED)
        {
            errors.push(
                Message::new(format!(
                    "keys that begin with `{RESERVED}` are reserved for leasehold"
                ))
                .help("use another name"),
            );
        } else if self
            .texts()
            .any(|text| text.text.contains(&format!(":{RESERVED}:")))
        {
            errors.push(
                Message::new(format!(
                    "keys with a part `{RESERVED}` are reserved for leasehold"
                ))
                .help("use another name"),
            );
        }
        let length: usize = self.texts().map(|text| text.text.len()).sum();
        if length > MAX_LEN {
            errors.push(
                Message::new(format!(
                    "the literal text of this key has {length} bytes, but a whole key has at most \
                     {MAX_LEN}"
                ))
                .help("use a shorter name, or insert a hash of the long part"),
            );
        }
        errors.extend(self.separators());
        errors
    }

    /// Checks that there is a `:`, `{` or `}` between two placeholders. Values are encoded, and
    /// contain none of these characters. Without a separator, the values `1` and `23` of `<a><b>`
    /// would give the same key as `12` and `3`.
    fn separators(&self) -> Vec<Message> {
        let mut errors = Vec::new();
        let mut last: Option<(&Placeholder, String)> = None;
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => {
                    if let Some((_, between)) = &mut last {
                        between.push_str(text);
                    }
                }
                Piece::Value(next) => {
                    if let Some((previous, between)) = last {
                        errors.extend(separator(previous, &between, next));
                    }
                    last = Some((next, String::new()));
                }
            }
        }
        errors
    }
}

fn separator(left: &Placeholder, between: &str, right: &Placeholder) -> Option<Message> {
    if between.contains([':', '{', '}']) {
        return None;
    }
    let (left, right) = (&left.text, &right.text);
    let what = if between.is_empty() {
        format!("nothing separates `<{left}>` from `<{right}>` in the key")
    } else {
        format!(
            "`{between}` does not separate `<{left}>` from `<{right}>` in the key: a value may contain it"
        )
    };
    Some(Message::new(what).help(format!("write `<{left}>:<{right}>`")))
}

/// Parser that splits a template into its pieces.
#[derive(Default)]
struct Reader {
    pieces: Vec<Piece>,
    literal: String,
    errors: Vec<Message>,
}

impl Reader {
    fn read(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find(['<', '>']) {
            self.literal.push_str(&rest[..at]);
            let doubled = ["<<", ">>"].iter().any(|two| rest[at..].starts_with(two));
            let mark = &rest[at..=at];
            rest = &rest[at + 1..];
            if doubled {
                self.literal.push_str(mark);
                rest = &rest[1..];
            } else if mark == ">" {
                self.stray();
            } else if let Some((inside, after)) = rest.split_once('>') {
                self.placeholder(inside);
                rest = after;
            } else {
                self.errors.push(unclosed(rest));
                return;
            }
        }
        self.literal.push_str(rest);
        self.flush();
    }

    fn placeholder(&mut self, inside: &str) {
        self.flush();
        match Placeholder::parse(inside) {
            Ok(placeholder) => self.pieces.push(Piece::Value(placeholder)),
            Err(error) => self.errors.push(error),
        }
    }

    /// Reports a `>` without an opening `<`. Reports nothing if there is an error already, because
    /// the `>` may belong to a malformed placeholder.
    fn stray(&mut self) {
        if !self.errors.is_empty() {
            return;
        }
        let word = |c: char| !(c.is_alphanumeric() || c == '_');
        let name = self.literal.rsplit(word).next().unwrap_or_default();
        let message = Message::new("a `>` in the key does not close a placeholder");
        self.errors.push(if is_name(name) {
            message.help(format!(
                "to insert an argument write `<{name}>`; for the characters themselves write `<<` \
                 and `>>`"
            ))
        } else {
            message.help("remove it; for the character itself write `>>`")
        });
    }

    fn flush(&mut self) {
        if !self.literal.is_empty() {
            self.pieces
                .push(Piece::Text(std::mem::take(&mut self.literal)));
        }
    }
}

fn unclosed(rest: &str) -> Message {
    let name: String = rest
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    let close = if name.is_empty() {
        "<id>".to_owned()
    } else {
        format!("<{name}>")
    };
    Message::new(format!(
        "the placeholder `<{rest}` of the key is not closed"
    ))
    .help(format!(
        "close it as `{close}`; for the character itself write `<<`"
    ))
}

impl Placeholder {
    fn parse(text: &str) -> Result<Self, Message> {
        if text.trim().is_empty() {
            return Err(
                Message::new(format!("the placeholder `<{text}>` of the key is empty"))
                    .help("name an argument, such as `<id>`"),
            );
        }
        let mut members = text.split('.');
        let root = members.next().unwrap_or_default();
        if !is_name(root) && !is_path(root) {
            return Err(malformed(text).help(meant(text)));
        }
        let path = members
            .map(|member| Member::parse(text, member))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            text: text.to_owned(),
            root: root.to_owned(),
            path,
        })
    }

    /// Returns the name of the argument, without `r#`.
    pub(crate) fn argument(&self) -> &str {
        self.root.strip_prefix("r#").unwrap_or(&self.root)
    }

    /// True if the placeholder begins with a path, such as `<Self::KIND>`, and not with an
    /// argument.
    pub(crate) fn is_constant(&self) -> bool {
        self.root.contains("::")
    }

    /// Returns the first field or method in the placeholder whose name is a keyword. Rust allows no
    /// such name.
    pub(crate) fn keyword(&self) -> Option<&str> {
        let fields = self.path.iter().filter_map(|member| match member {
            Member::Field(name) | Member::Method(name) => Some(name.as_str()),
            Member::Index(_) => None,
        });
        fields
            .into_iter()
            .find(|name| syn::parse_str::<syn::Ident>(name).is_err())
    }
}

/// Returns the advice for a placeholder whose first part is not a name, such as `<&id>` or
/// `<id:?>`.
fn meant(text: &str) -> String {
    const CONVERTERS: [&str; 7] = ["int", "string", "str", "float", "path", "uuid", "u64"];
    const MARKS: [char; 8] = ['&', '*', '$', '#', ':', '@', '%', '='];
    let bare = text.trim_start_matches(|c: char| MARKS.contains(&c) || c.is_whitespace());
    let bare = bare.trim_end_matches(['%', ' ']);
    let is_placeholder = |text: &str| text != "Self" && Placeholder::parse(text).is_ok();
    if text.starts_with('&') || text.starts_with('*') {
        if is_placeholder(bare) {
            return format!("write `<{bare}>`; a value is borrowed anyway");
        }
    } else if bare != text && is_placeholder(bare) {
        return format!("write `<{bare}>`");
    }
    if let Some((name, format)) = text
        .split_once(':')
        .filter(|(name, format)| is_placeholder(name) && !format.starts_with(':'))
    {
        let value = if CONVERTERS.contains(&name) && is_name(format) {
            format
        } else {
            name
        };
        return format!("a value is written with its `Display`, without a format: `<{value}>`");
    }
    FORMS.to_owned()
}

const FORMS: &str = "insert an argument `<id>`, a field `<order.user_id>`, a tuple index \
     `<pair.0>`, a method call `<req.tenant()>` or a constant `<Self::KIND>`; for anything else \
     use an expression: `key = format!(…)`";

impl Member {
    fn parse(text: &str, member: &str) -> Result<Self, Message> {
        if let (false, Ok(index)) = (member.starts_with('+'), member.parse()) {
            return Ok(Self::Index(index));
        }
        if let Some(name) = member.strip_suffix("()").filter(|name| is_name(name)) {
            return Ok(Self::Method(name.to_owned()));
        }
        if is_name(member) {
            return Ok(Self::Field(member.to_owned()));
        }
        let called = member
            .split_once('(')
            .is_some_and(|(name, _)| is_name(name));
        Err(malformed(text).help(if called {
            "a method in a placeholder takes no arguments; write the key as an expression: \
             `key = format!(…)`"
        } else {
            FORMS
        }))
    }
}

fn malformed(text: &str) -> Message {
    Message::new(format!("`<{text}>` is not a placeholder"))
}

/// True if `text` is a path such as `Self::KIND` or `crate::SHARD`.
fn is_path(text: &str) -> bool {
    text.contains("::")
        && text.split("::").all(is_name)
        && syn::parse_str::<syn::Path>(text).is_ok()
}

/// True if `text` is an identifier (or a keyword, which the module `names` refuses later).
pub(crate) fn is_name(text: &str) -> bool {
    let name = text.strip_prefix("r#").unwrap_or(text);
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && chars.all(|c| c.is_alphanumeric() || c == '_')
        && name != "_"
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
