//! Queries and changes of unparsed tokens.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::visit_mut::VisitMut;
use syn::{Lit, LitStr, Type};

/// Returns the span of all generated code. With this span, generated names cannot clash with the
/// user's names, and lints skip the code.
pub(crate) fn here() -> Span {
    Span::mixed_site()
}

/// Returns the identifier without `r#`.
pub(crate) fn plain(ident: &Ident) -> String {
    let text = ident.to_string();
    text.strip_prefix("r#").map_or(text.clone(), str::to_owned)
}

/// Returns the identifier of a name, which may begin with `r#`.
pub(crate) fn ident(name: &str, span: Span) -> Ident {
    match name.strip_prefix("r#") {
        Some(name) => Ident::new_raw(name, span),
        None => Ident::new(name, span),
    }
}

/// Takes the tokens of an item out of the invisible group that `macro_rules` puts around
/// `$item:item`.
pub(crate) fn without_invisible_group(item: TokenStream) -> Vec<TokenTree> {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    while let [TokenTree::Group(group)] = tokens.as_slice() {
        if group.delimiter() != Delimiter::None {
            break;
        }
        tokens = group.stream().into_iter().collect();
    }
    tokens
}

/// Returns the place of the attribute, as a span of the user's code. With a span of the macro,
/// rustc would add a note that the error "originates" in the attribute, which is obvious.
pub(crate) fn attribute_span(item: &TokenStream) -> Span {
    let attribute = Span::call_site();
    let first = item.clone().into_iter().next();
    first.map_or(attribute, |token| attribute.resolved_at(token.span()))
}

/// Takes a `$body:block` of `macro_rules` out of its invisible group.
pub(crate) fn without_invisible_braces(body: TokenTree) -> TokenTree {
    let TokenTree::Group(group) = &body else {
        return body;
    };
    if group.delimiter() != Delimiter::None {
        return body;
    }
    let mut inside = group.stream().into_iter();
    match (inside.next(), inside.next()) {
        (Some(only), None) => without_invisible_braces(only),
        _ => body,
    }
}

/// True if `name` occurs anywhere in the tokens, even in a format string such as `"{name}"`.
pub(crate) fn mentions(tokens: TokenStream, name: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => plain(&ident) == name,
        TokenTree::Group(group) => mentions(group.stream(), name),
        TokenTree::Literal(literal) => {
            let text = literal.to_string();
            text.contains(&format!("{{{name}}}")) || text.contains(&format!("{{{name}:"))
        }
        TokenTree::Punct(_) => false,
    })
}

/// True if the tokens may use a variable `name`. A field, a method or a part of a path with this
/// name does not count.
pub(crate) fn uses(tokens: TokenStream, name: &str) -> bool {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let used = |(index, token): (usize, &TokenTree)| match token {
        TokenTree::Ident(ident) => plain(ident) == name && is_variable(&tokens, index),
        TokenTree::Group(group) => uses(group.stream(), name),
        literal => mentions(literal.clone().into(), name),
    };
    tokens.iter().enumerate().any(used)
}

/// True if the identifier at `index` may be a variable.
fn is_variable(tokens: &[TokenTree], index: usize) -> bool {
    let (back, back_two) = (index.checked_sub(1), index.checked_sub(2));
    let member = is_punct(tokens, back, '.') && !is_punct(tokens, back_two, '.');
    let in_path = is_punct(tokens, back, ':') && is_punct(tokens, back_two, ':');
    let names_something = is_punct(tokens, Some(index + 1), ':');
    !(member || in_path || names_something)
}

fn is_punct(tokens: &[TokenTree], index: Option<usize>, char: char) -> bool {
    let token = index.and_then(|index| tokens.get(index));
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == char)
}

/// Replaces every identifier `from` with `to`.
pub(crate) fn rename(tokens: TokenStream, from: &str, to: &Ident) -> TokenStream {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    // `self::LIMIT` is a path to a module, not the receiver.
    let is_path = |index: usize| {
        is_punct(&tokens, Some(index + 1), ':') && is_punct(&tokens, Some(index + 2), ':')
    };
    let renamed = |(index, token): (usize, &TokenTree)| match token {
        TokenTree::Ident(ident) if ident == from && !is_path(index) => {
            Ident::new(&to.to_string(), ident.span().resolved_at(to.span())).into()
        }
        TokenTree::Group(group) => {
            let mut renamed = Group::new(group.delimiter(), rename(group.stream(), from, to));
            renamed.set_span(group.span());
            renamed.into()
        }
        other => other.clone(),
    };
    tokens.iter().enumerate().map(renamed).collect()
}

/// Returns the keyword of an item that is not a function, with its span.
pub(crate) fn item_keyword(head: TokenStream) -> Option<(Span, String)> {
    const KINDS: [&str; 12] = [
        "struct",
        "enum",
        "union",
        "trait",
        "impl",
        "mod",
        "type",
        "const",
        "static",
        "use",
        "extern",
        "macro_rules",
    ];
    head.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if KINDS.iter().any(|kind| ident == kind) => {
            Some((ident.span(), ident.to_string()))
        }
        _ => None,
    })
}

/// Replaces every `impl Trait` in the type with `_`, so that the type can be written inside a body.
pub(crate) fn infer_impl_trait(ty: &Type) -> TokenStream {
    struct Infer;
    impl VisitMut for Infer {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            if let Type::ImplTrait(found) = ty {
                let span = found.impl_token.span;
                *ty = syn::parse_quote_spanned!(span=> _);
            }
            syn::visit_mut::visit_type_mut(self, ty);
        }
    }
    let mut ty = ty.clone();
    Infer.visit_type_mut(&mut ty);
    ty.into_token_stream()
}

/// Returns all string literals.
pub(crate) fn strings(tokens: TokenStream) -> Vec<LitStr> {
    let mut found = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => found.extend(strings(group.stream())),
            TokenTree::Literal(literal) => {
                if let Lit::Str(text) = Lit::new(literal) {
                    found.push(text);
                }
            }
            _ => {}
        }
    }
    found
}

/// True if an expression has a use of `name` that probably only borrows the value: as the whole
/// expression, behind a `&`, in a `format!`, by an index, or by a method that is not known to
/// consume. Generated code uses `name` again only in this case, because a moved value cannot be
/// used.
pub(crate) fn borrows(tokens: TokenStream, name: &str) -> bool {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let borrowed = |(index, token): (usize, &TokenTree)| match token {
        TokenTree::Ident(ident) if plain(ident) == name && is_variable(&tokens, index) => {
            let end = fields_end(&tokens, index);
            match (tokens.get(end + 1), tokens.get(end + 2)) {
                (Some(TokenTree::Punct(dot)), Some(TokenTree::Ident(method)))
                    if dot.as_char() == '.' =>
                {
                    !consumes(&method.to_string())
                }
                (Some(TokenTree::Group(group)), _) => group.delimiter() == Delimiter::Bracket,
                (next, _) => {
                    (index == 0 && next.is_none()) || is_punct(&tokens, index.checked_sub(1), '&')
                }
            }
        }
        TokenTree::Group(group) if is_format(&tokens[..index]) => mentions(group.stream(), name),
        TokenTree::Group(group) => borrows_inside(group, name),
        _ => false,
    };
    tokens.iter().enumerate().any(borrowed)
}

/// True if these tokens end with the name of a macro such as `format!`, which borrows.
fn is_format(tokens: &[TokenTree]) -> bool {
    match tokens {
        [.., TokenTree::Ident(name), TokenTree::Punct(mark)] => {
            mark.as_char() == '!' && name.to_string().contains("format")
        }
        _ => false,
    }
}

/// Returns the index of the last token of a variable and its fields, such as `order.id.0`. A name
/// before a `(` or a `::` is a method, and `await` is no field.
fn fields_end(tokens: &[TokenTree], mut end: usize) -> usize {
    while is_punct(tokens, Some(end + 1), '.') {
        let is_method = match (tokens.get(end + 2), tokens.get(end + 3)) {
            (Some(TokenTree::Ident(name)), _) if name == "await" => true,
            (_, Some(TokenTree::Group(group))) => group.delimiter() == Delimiter::Parenthesis,
            _ => is_punct(tokens, Some(end + 3), ':'),
        };
        if is_method {
            break;
        }
        end += 2;
    }
    end
}

/// True if methods with this name take `self` by value in the standard library, and for `await`.
fn consumes(method: &str) -> bool {
    let names = [
        "and",
        "and_then",
        "await",
        "collect",
        "filter",
        "filter_map",
        "flatten",
        "map",
        "map_err",
        "map_or",
        "map_or_else",
        "ok",
        "ok_or",
        "ok_or_else",
        "or",
        "or_else",
        "then",
        "then_some",
        "xor",
        "zip",
    ];
    let starts = ["expect", "into", "unwrap"];
    names.contains(&method) || starts.iter().any(|start| method.starts_with(start))
}

/// Like [`borrows`], but for the tokens inside a group. There, a name or a field alone is an
/// argument of a call, which moves the value.
fn borrows_inside(group: &Group, name: &str) -> bool {
    let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
    let alone = matches!(tokens.first(), Some(TokenTree::Ident(_)))
        && fields_end(&tokens, 0) + 1 == tokens.len();
    !alone && borrows(group.stream(), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> TokenStream {
        text.parse().expect("tokens")
    }

    #[test]
    fn uses_of_a_variable_are_found() {
        for (text, used) in [
            ("id", true),
            ("f(&id)", true),
            ("id.len()", true),
            ("0..id", true),
            ("Order { id }", true),
            ("Order { id: id }", true),
            ("format!(\"{id}\")", true),
            ("format!(\"{id:?}\")", true),
            ("r#id", true),
            ("order.id", false),
            ("order.id()", false),
            ("Order { id: 1 }", false),
            ("crate::id()", false),
            ("id::new()", false),
            ("\"id\"", false),
            ("ids", false),
        ] {
            assert_eq!(uses(tokens(text), "id"), used, "{text}");
        }
    }

    #[test]
    fn borrowing_uses_are_recognized() {
        for (text, borrowed) in [
            ("id", true),
            ("&id", true),
            ("order.id", false),
            ("id.name", true),
            ("id.name()", true),
            ("format!(\"{}\", id)", true),
            ("format!(\"{id}\")", true),
            ("f(&id)", true),
            ("id.name.trim()", true),
            ("f(id.name.trim())", true),
            ("f((id.len()))", true),
            ("id.parse::<u64>()", true),
            ("id.0", true),
            ("f(id.name)", false),
            ("f(id.0.name)", false),
            ("id.name + \"x\"", false),
            ("id.name.into()", false),
            ("id.unwrap_or_default()", false),
            ("id.name.map(f)", false),
            ("id.map_id()", true),
            ("id.names[0]", true),
            ("f(id[0].name)", true),
            ("id.await", false),
            ("id.name.await", false),
            ("vec![id]", false),
            ("f(!(id.name))", false),
            ("id.into_key()", false),
            ("id.into()", false),
            ("f(id)", false),
            ("f(1, id)", false),
        ] {
            assert_eq!(borrows(tokens(text), "id"), borrowed, "{text}");
        }
    }

    #[test]
    fn only_whole_identifiers_are_renamed() {
        let to = Ident::new("__self", Span::call_site());
        let renamed = rename(tokens("self.a(self_b, [self], \"self\")"), "self", &to);
        let expected = tokens("__self.a(self_b, [__self], \"self\")");
        assert_eq!(renamed.to_string(), expected.to_string());
    }

    #[test]
    fn impl_trait_becomes_an_underscore() {
        for (ty, inferred) in [
            ("Result<impl Display + 'a, E>", "Result<_, E>"),
            ("impl Fn(u8) -> u8", "_"),
            ("(impl A, Vec<impl B>)", "(_, Vec<_>)"),
            ("Result<u8, E>", "Result<u8, E>"),
        ] {
            let ty: Type = syn::parse_str(ty).expect("a type");
            assert_eq!(
                infer_impl_trait(&ty).to_string(),
                tokens(inferred).to_string()
            );
        }
    }
}
