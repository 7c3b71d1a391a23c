//! The key's grammar: literal text and `<placeholders>`.

use crate::diag::Message;

/// Text that no key may begin with: such keys are leasehold's own.
const RESERVED: &str = "%leasehold";
/// The longest key, in bytes.
const MAX_LEN: usize = 512;

/// A key as the attribute writes it: `"order:<id>"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    Value(Placeholder),
}

/// `<order.user_id>`: an argument, and the way from it to the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placeholder {
    /// What stands between the angle brackets.
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
    /// Reads a template; names are looked up later, where the function is known.
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

    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
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
                    "keys that begin with `{RESERVED}` are leasehold's own"
                ))
                .help("use another name"),
            );
        } else if self
            .texts()
            .any(|text| text.contains(&format!(":{RESERVED}:")))
        {
            errors.push(
                Message::new(format!(
                    "keys with `{RESERVED}` as a part are leasehold's own"
                ))
                .help("use another name"),
            );
        }
        let length: usize = self.texts().map(str::len).sum();
        if length > MAX_LEN {
            errors.push(
                Message::new(format!(
                    "the literal text of this key has {length} bytes, and a whole key at most {MAX_LEN}"
                ))
                .help("use a shorter name, or insert a hash of the long part"),
            );
        }
        errors.extend(self.separators());
        errors
    }

    /// Encoded values contain no `:` `{` `}`, so one of these between two of them keeps different
    /// arguments apart: without it `<a><b>` is the same key for `1, 23` and for `12, 3`.
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

/// Splits a template into its pieces.
#[derive(Default)]
struct Reader {
    pieces: Vec<Piece>,
    literal: String,
    errors: Vec<Message>,
}

impl Reader {
    fn read(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find('<') {
            self.literal.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('<') {
                self.literal.push('<');
                rest = after;
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
        if text.contains(char::is_whitespace) {
            let meant: String = text.chars().filter(|c| !c.is_whitespace()).collect();
            return Err(malformed(text).help(format!("write it without white space: `<{meant}>`")));
        }
        if let Some((name, _)) = text.split_once(':').filter(|(name, _)| is_name(name)) {
            return Err(malformed(text).help(format!(
                "a value is written with its `Display`, and has no format: `<{name}>`"
            )));
        }
        if let Some(name) = text.strip_prefix(['&', '*']).filter(|name| is_name(name)) {
            return Err(
                malformed(text).help(format!("write `<{name}>`; a value is borrowed anyway"))
            );
        }
        let mut members = text.split('.');
        let root = members.next().unwrap_or_default();
        if !is_name(root) {
            return Err(malformed(text).help(FORMS));
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
}

impl Placeholder {
    /// The first name in it that is a keyword of Rust and can name nothing.
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

const FORMS: &str = "insert an argument `<id>`, a field `<order.user_id>`, a tuple index `<pair.0>` or a method \
     call `<req.tenant()>`; anything else goes into an expression: `key = format!(…)`";

impl Member {
    fn parse(text: &str, member: &str) -> Result<Self, Message> {
        if let Ok(index) = member.parse::<u32>() {
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

/// Whether `text` is an identifier (or a keyword, which the lookup refuses).
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
