//! One option as written, before its meaning is known.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::parse::ParseStream;
use syn::{Expr, Ident, Lit, Token};

use crate::diag::{Diagnostics, Message};
use crate::duration;

/// `name` or `name = value`; any Rust expression can be a value here.
pub(crate) struct RawOption {
    pub(crate) name: Ident,
    pub(crate) value: Option<Expr>,
}

impl RawOption {
    /// Reads one option and the comma after it. Reports and skips tokens that are not an option, so
    /// that the following options are still read. The returned error is the name of the option that
    /// the user probably meant.
    pub(crate) fn parse(input: ParseStream<'_>, diagnostics: &Diagnostics) -> Result<Self, String> {
        let option = Self::parse_strictly(input).map_err(|(meant, error)| {
            diagnostics.syntax(error);
            skip(input);
            meant
        });
        if !input.is_empty() && !input.peek(Token![,]) {
            let is_key = option.as_ref().is_ok_and(|option| option.name == "key");
            diagnostics.error(input.span(), &no_comma(input, is_key));
            let semicolon = input.parse::<Option<Token![;]>>();
            if !matches!(semicolon, Ok(Some(_))) && !input.peek(Ident::peek_any) {
                skip(input);
            }
        }
        let _comma = input.parse::<Option<Token![,]>>();
        option
    }

    fn parse_strictly(input: ParseStream<'_>) -> Result<Self, (String, syn::Error)> {
        if !input.peek(Ident::peek_any) {
            return Err(nameless(input));
        }
        let name = input
            .call(Ident::parse_any)
            .map_err(|error| (String::new(), error))?;
        let value = value(input, &name).map_err(|error| (name.to_string(), error))?;
        Ok(Self { name, value })
    }

    /// Returns the span of the value. If there is no value, returns the span of the name.
    pub(crate) fn span(&self) -> Span {
        self.value
            .as_ref()
            .map_or(self.name.span(), syn::spanned::Spanned::span)
    }

    /// Returns the value if it is a literal.
    pub(crate) fn literal(&self) -> Option<&Lit> {
        match &self.value {
            Some(Expr::Lit(literal)) => Some(&literal.lit),
            _ => None,
        }
    }
}

/// Returns the error for a missing comma after an option.
fn no_comma(input: ParseStream<'_>, behind_key: bool) -> Message {
    if input.peek(Token![;]) {
        return Message::new("options are separated by `,`").help("write `,` instead of `;`");
    }
    if let Ok(next) = input.fork().call(Ident::parse_any) {
        return Message::new(format!("expected `,` before `{next}`"))
            .help("options are separated by `,`");
    }
    let message = Message::new("expected `,` after this option");
    if behind_key && (input.peek(Token![:]) || input.peek(Token![<])) {
        return message.help("put the template in quotes: `key = \"order:<id>\"`");
    }
    message
}

/// Parses the value after `=`.
fn value(input: ParseStream<'_>, name: &Ident) -> syn::Result<Option<Expr>> {
    if input.peek(Token![:])
        || input.peek(Token![==])
        || input.peek(Token![=>])
        || input.peek(syn::token::Paren)
    {
        let what = format!("the value of `{name}` must follow `=`");
        let value = literal_behind(input).unwrap_or_else(|| "…".to_owned());
        return Err(input.error(format!("{what}\nhelp: write `{name} = {value}`")));
    }
    let equals: Option<Token![=]> = input.parse()?;
    if equals.is_none() {
        return Ok(None);
    }
    if input.is_empty() || input.peek(Token![,]) {
        let example = example(name);
        let what = format!("`{name} =` has no value\nhelp: write `{name} = {example}`");
        return Err(syn::Error::new(name.span(), what));
    }
    let unquoted = name == "key" && input.peek(Token![<]);
    let start = input.span();
    let value = input.parse().map(peel).map(Some);
    value.map_err(|error| {
        if unquoted {
            let what = "a template must be in quotes\nhelp: write `key = \"<id>\"`";
            return syn::Error::new(start, what);
        }
        error
    })
}

/// Returns the literal of an option in a wrong form: `key: "order"` or `key("order")`.
fn literal_behind(input: ParseStream<'_>) -> Option<String> {
    let literal = input
        .fork()
        .step(|cursor| {
            let mut cursor = *cursor;
            if let Some((inside, _, after)) = cursor.group(Delimiter::Parenthesis) {
                return Ok((inside.literal().map(|(literal, _)| literal), after));
            }
            while let Some((_, after)) = cursor.punct() {
                cursor = after;
            }
            Ok((cursor.literal().map(|(literal, _)| literal), cursor))
        })
        .ok()??;
    Some(literal.to_string())
}

/// Returns an example of a value for the option.
fn example(name: &Ident) -> &'static str {
    match name.to_string().as_str() {
        "key" => "\"order:<id>\"",
        "ttl" | "max_hold" | "wait" | "cooldown" | "min_hold" | "replay" => "\"10s\"",
        "on_lost" => "\"cancel\"",
        "guard" => "lock",
        "permits" => "3",
        _ => "…",
    }
}

/// Skips to the next comma.
fn skip(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

/// Removes the parentheses around a literal, and the invisible groups of `macro_rules`, so that a
/// literal inside them still counts as a literal.
pub(crate) fn peel(value: Expr) -> Expr {
    match value {
        Expr::Group(group) => peel(*group.expr),
        Expr::Paren(paren) => match peel((*paren.expr).clone()) {
            literal @ Expr::Lit(_) => literal,
            _ => Expr::Paren(paren),
        },
        other => other,
    }
}

/// Handles a value without a name, such as `"order:<id>"`. Returns the name of the option that the
/// user probably meant, and the error.
fn nameless(input: ParseStream<'_>) -> (String, syn::Error) {
    let what = "an option must have a name";
    let ahead = input.fork();
    let Ok(literal) = ahead.parse::<syn::LitStr>() else {
        return ("key".to_owned(), input.error(what));
    };
    let rest: TokenStream = ahead.parse().unwrap_or_default();
    let has_ttl = rest
        .into_iter()
        .any(|token| matches!(token, TokenTree::Ident(name) if name == "ttl"));
    let text = literal.token();
    let (meant, more) = if duration::parse(&literal.value()).is_ok() && !has_ttl {
        ("ttl", "")
    } else {
        (
            "key",
            "; for several keys write an array: `key = [\"a\", \"b\"]`",
        )
    };
    let help = format!("write `{meant} = {text}`{more}");
    (
        meant.to_owned(),
        input.error(format!("{what}\nhelp: {help}")),
    )
}
