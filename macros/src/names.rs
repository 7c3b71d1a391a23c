//! The names in a key, looked up among the function's arguments.

use quote::ToTokens as _;

use crate::args::Args;
use crate::diag::{Diagnostics, Message, closest};
use crate::option::{At, KeyArg};
use crate::target::Target;
use crate::template::{Placeholder, Template};
use crate::tokens;

pub(crate) fn key_names(args: &Args, target: &Target, diagnostics: &Diagnostics) {
    for key in args.key.iter().flatten() {
        if let KeyArg::Template(template) = key {
            names(template, target, diagnostics);
        }
    }
}

fn names(template: &At<Template>, target: &Target, diagnostics: &Diagnostics) {
    let At {
        value: template,
        span,
    } = template;
    for placeholder in template.placeholders() {
        if target.binding(&placeholder.root).is_none() {
            diagnostics.error(*span, &unknown_name(placeholder, target));
        }
        if let Some(keyword) = placeholder.keyword() {
            let message = Message::new(format!("`<{}>` is not a placeholder", placeholder.text))
                .help(format!(
                    "`{keyword}` is a keyword; write `r#{keyword}` for a field of this name"
                ));
            diagnostics.error(*span, &message);
        }
    }
    for message in braces_by_habit(template, target) {
        diagnostics.error(*span, &message);
    }
}

fn unknown_name(placeholder: &Placeholder, target: &Target) -> Message {
    let Placeholder { text, root, .. } = placeholder;
    if root == "self" {
        return Message::new(format!(
            "this function has no `self` for placeholder `<{text}>` of the key"
        ))
        .help("insert an argument, such as `<id>`");
    }
    let names: Vec<&str> = target
        .bindings
        .iter()
        .map(|binding| binding.name.as_str())
        .filter(|name| !name.starts_with("__"))
        .collect();
    let tail = text.strip_prefix(root.as_str()).unwrap_or_default();
    let close = closest(root, names.iter().copied()).map(|name| format!("`<{name}{tail}>`"));
    Message::new(format!("no argument `{root}` for placeholder `<{text}>` of the key")).suggest(close, || {
        if names.is_empty() {
            "the function has no arguments; another value goes into an expression: `key = format!(…)`"
                .to_owned()
        } else {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            format!(
                "the arguments are {}; another value goes into an expression: `key = format!(…)`",
                names.join(", ")
            )
        }
    })
}

/// `{id}` where `id` is an argument, and `{}`: both come from `format!`.
fn braces_by_habit(template: &Template, target: &Target) -> Vec<Message> {
    let mut messages = Vec::new();
    for text in template.texts() {
        for part in text.split('{').skip(1) {
            let Some((inside, _)) = part.split_once('}') else {
                continue;
            };
            let root = inside.split(['.', ':']).next().unwrap_or_default();
            if inside.is_empty() {
                messages.push(
                    Message::new("`{}` in a key is literal text")
                        .help("to insert an argument write its name: `<id>`"),
                );
            } else if target.binding(root).is_some() && is_habit(inside) {
                let inserted = inside.split(':').next().unwrap_or_default();
                messages.push(
                    Message::new(format!(
                        "`{{{inside}}}` in a key is literal text (a Redis Cluster hash tag), but `{root}` is an argument"
                    ))
                    .help(format!(
                        "to insert the argument write `<{inserted}>`; to make it the hash tag as well write `{{<{inserted}>}}`"
                    )),
                );
            }
        }
    }
    messages
}

/// `id`, `order.id`, `id:?`; and not `order:all`, which is a good hash tag.
fn is_habit(inside: &str) -> bool {
    let (path, format) = inside.split_once(':').unwrap_or((inside, ""));
    path.split('.').all(|name| !name.is_empty())
        && (format.is_empty() || format.contains(['?', '#', '>', '<', '0']))
}

/// A template inside of an expression is not filled: `key = "order:<id>".to_owned()` would be one
/// lock for all orders.
pub(crate) fn key_expression(args: &Args, target: &Target, diagnostics: &Diagnostics) {
    for key in args.key.iter().flatten() {
        if let KeyArg::Expression(expression) = key {
            expression_strings(expression, target, diagnostics);
        }
    }
}

fn expression_strings(expression: &syn::Expr, target: &Target, diagnostics: &Diagnostics) {
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
            .help("give the template alone, as a string literal, or build the key with `format!`");
            diagnostics.error(literal.span(), &message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_tags_are_not_taken_for_habits() {
        for (inside, habit) in [
            ("id", true),
            ("order.id", true),
            ("id:?", true),
            ("id:>5", true),
            ("order:all", false),
            ("id.", false),
        ] {
            assert_eq!(is_habit(inside), habit, "{inside}");
        }
    }
}
