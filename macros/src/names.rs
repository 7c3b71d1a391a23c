//! Looks up the names in a key among the function's arguments.

use quote::ToTokens as _;
use syn::{Expr, Ident, Lit, LitStr, Stmt};

use crate::args::Args;
use crate::diag::{Diagnostics, Message, closest};
use crate::habit;
use crate::kind::Kind;
use crate::option::{At, KeyArg};
use crate::target::Target;
use crate::template::{Member, Placeholder, Template};
use crate::tokens;

pub(crate) fn key_names(args: &Args, target: &Target, diagnostics: &Diagnostics) {
    for key in args.key.iter().flatten() {
        if let KeyArg::Template(template) = key {
            names(template, target, args.guard.as_ref(), diagnostics);
        }
    }
}

fn names(
    template: &At<Template>,
    target: &Target,
    guard: Option<&Ident>,
    diagnostics: &Diagnostics,
) {
    let At {
        value: template,
        span,
    } = template;
    for placeholder in template.placeholders() {
        if !placeholder.is_constant() && target.binding(&placeholder.root).is_none() {
            let mut message = unknown_name(placeholder, target);
            if guard.is_some_and(|guard| tokens::plain(guard) == placeholder.argument()) {
                message = message.help(format!(
                    "the guard `{}` exists once the key is locked; insert an argument",
                    placeholder.root
                ));
            }
            diagnostics.error(*span, &message);
        }
        if let Some(keyword) = placeholder.keyword() {
            diagnostics.error(*span, &no_keyword(placeholder, keyword));
        } else if let Some(message) = no_field(placeholder, target) {
            diagnostics.error(*span, &message);
        }
    }
    let names = habit::Names {
        arguments: target.names(),
        inserted: template.placeholders().map(Placeholder::argument).collect(),
    };
    for message in template.texts().flat_map(|text| habit::find(text, &names)) {
        diagnostics.error(*span, &message);
    }
}

fn no_keyword(placeholder: &Placeholder, keyword: &str) -> Message {
    let text = &placeholder.text;
    let message = Message::new(format!("`<{text}>` is not a placeholder"));
    match text.split_once(".await") {
        Some((value, _)) if keyword == "await" => {
            message.help(format!("a key cannot use `await`; insert `<{value}>`"))
        }
        _ => message.help(format!(
            "`{keyword}` is a keyword; write `r#{keyword}` for a field of this name"
        )),
    }
}

/// Returns the error for `<items.len>`, where the user forgot `()`. rustc would suggest to insert
/// `()` in the wrong place.
fn no_field(placeholder: &Placeholder, target: &Target) -> Option<Message> {
    let Kind::WithoutFields(ty) = target.binding(&placeholder.root)?.kind else {
        return None;
    };
    let (Some(Member::Field(name)), root) = (placeholder.path.first(), &placeholder.root) else {
        return None;
    };
    let what = format!("`{root}` is a `{ty}`, which has no field `{name}`");
    Some(Message::new(what).help(format!(
        "call a method with parentheses: `<{root}.{name}()>`"
    )))
}

fn unknown_name(placeholder: &Placeholder, target: &Target) -> Message {
    let Placeholder { text, root, .. } = placeholder;
    if root == "self" {
        return Message::new(format!(
            "this function has no `self` for placeholder `<{text}>` of the key"
        ))
        .help("insert an argument, such as `<id>`");
    }
    let names = target.names();
    let tail = text.strip_prefix(root.as_str()).unwrap_or_default();
    let close = closest(root, names.iter().copied()).map(|name| format!("`<{name}{tail}>`"));
    if close.is_none() && is_constant(root) {
        return Message::new(format!(
            "no argument `{root}` for placeholder `<{text}>` of the key"
        ))
        .help(if target.binding("self").is_some() {
            format!(
                "write a constant with its path: `<self::{root}>` or `<Self::{root}>`; for a \
                 const parameter use an expression: `key = format!(…)`"
            )
        } else {
            format!(
                "write a constant with its path: `<self::{root}>`, or in an impl `<Self::{root}>`; \
                 for a const parameter use an expression: `key = format!(…)`"
            )
        });
    }
    Message::new(format!(
        "no argument `{root}` for placeholder `<{text}>` of the key"
    ))
    .suggest(close, || {
        if names.is_empty() {
            "the function has no arguments; for other values use an expression: `key = format!(…)`"
                .to_owned()
        } else {
            let are = if names.len() == 1 {
                "the only argument is"
            } else {
                "the arguments are"
            };
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            format!(
                "{are} {}; for other values use an expression: `key = format!(…)`",
                names.join(", ")
            )
        }
    })
}

/// True if a name is written like a constant, such as `MAX_ITEMS`.
fn is_constant(name: &str) -> bool {
    name.len() > 1
        && !name.contains(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))
}

/// Refuses a template inside of an expression, where it would not be filled:
/// `key = "order:<id>".to_owned()` would be one lock for all orders.
pub(crate) fn key_expression(args: &Args, target: &Target, diagnostics: &Diagnostics) {
    for key in args.key.iter().flatten() {
        if let KeyArg::Expression(expression) = key {
            expression_strings(expression, target, diagnostics);
        }
    }
}

fn expression_strings(expression: &Expr, target: &Target, diagnostics: &Diagnostics) {
    for literal in tokens::strings(expression.to_token_stream()) {
        let text = literal.value();
        let names = text
            .split('<')
            .skip(1)
            .filter_map(|part| part.split_once('>'));
        let found = names.map(|(inside, _)| inside).find(|inside| {
            inside
                .split('.')
                .next()
                .is_some_and(|root| target.binding(root).is_some())
        });
        if let Some(inside) = found {
            let message = Message::new(format!(
                "`<{inside}>` is not inserted: this key is an expression"
            ))
            .help("write the template alone, as a string literal, or build the key with `format!`");
            diagnostics.error(literal.span(), &message);
            return;
        }
    }
    if let Some(literal) = converted(expression) {
        let names = habit::Names {
            arguments: target.names(),
            inserted: Vec::new(),
        };
        let text = habit::Text {
            text: &literal.value(),
            continues: false,
        };
        for message in habit::find(text, &names) {
            diagnostics.error(literal.span(), &alone(message, &literal.value()));
        }
    }
}

/// Replaces the help of an error about another tool's placeholder inside an expression. The new
/// help suggests a string literal as the key, because inside an expression even `<id>` is not
/// filled.
fn alone(message: Message, text: &str) -> Message {
    let help = message.help.as_deref().unwrap_or_default();
    let quoted = |text: &str| text.split('`').nth(1).unwrap_or_default().to_owned();
    let (written, meant) = (quoted(&message.what), quoted(help));
    if !meant.contains('<') {
        return message;
    }
    let key = if text.matches(&written).count() == 1 {
        text.replace(&written, &meant)
    } else {
        format!("order:{meant}")
    };
    message.help(format!(
        "only a bare string literal is a template: write `key = \"{key}\"`"
    ))
}

/// Returns the literal that an expression only converts: `"order".to_owned()`,
/// `String::from("order")`.
fn converted(expression: &Expr) -> Option<&LitStr> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text),
            _ => None,
        },
        Expr::Paren(inside) => converted(&inside.expr),
        Expr::Reference(inside) => converted(&inside.expr),
        Expr::MethodCall(call) if call.args.is_empty() => converted(&call.receiver),
        Expr::Call(call) if call.args.len() == 1 => {
            let Expr::Path(function) = &*call.func else {
                return None;
            };
            let name = &function.path.segments.last()?.ident;
            let converts = ["from", "new", "Borrowed"]
                .iter()
                .any(|known| name == known);
            converts.then(|| converted(&call.args[0])).flatten()
        }
        Expr::Block(block) => match block.block.stmts.as_slice() {
            [Stmt::Expr(last, None)] => converted(last),
            _ => None,
        },
        _ => None,
    }
}
