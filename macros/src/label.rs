//! The label of a function, which names its locks in metrics, spans and the log.

use crate::option::KeyArg;
use crate::template::{Piece, Template};

/// The label of a key that is an expression. The crate `leasehold` uses the same word.
const OTHER: &str = "other";

// Input:
//     key = ["order:<id>", key_of(&cart)]
//
// Output:
//     "order:<id>, other"
pub(crate) fn label(keys: &[KeyArg]) -> String {
    let labels = keys.iter().map(|key| match key {
        KeyArg::Template(template) => of_template(&template.value),
        KeyArg::Expression(_) => OTHER.to_owned(),
    });
    let labels: Vec<String> = labels.collect();
    if labels.iter().all(|label| label == OTHER) {
        return OTHER.to_owned();
    }
    labels.join(", ")
}

fn of_template(template: &Template) -> String {
    let pieces = template.pieces.iter().map(|piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Value(placeholder) => format!("<{}>", placeholder.text),
    });
    pieces.collect()
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;

    use super::*;
    use crate::option::At;

    fn template(text: &str) -> KeyArg {
        let value = Template::parse(text).expect("a template");
        let span = Span::call_site();
        KeyArg::Template(At { value, span })
    }

    fn expression(text: &str) -> KeyArg {
        KeyArg::Expression(Box::new(syn::parse_str(text).expect("an expression")))
    }

    /// Fails if a label omits a part of its template, or shows the text of an expression.
    #[test]
    fn a_label_is_the_unchanged_template() {
        for (keys, expected) in [
            (vec![template("order:<id>")], "order:<id>"),
            (vec![template("job")], "job"),
            (
                vec![template("{<self.tenant()>}:<pair.0>")],
                "{<self.tenant()>}:<pair.0>",
            ),
            (
                vec![template("account:<from>"), template("account:<to>")],
                "account:<from>, account:<to>",
            ),
            (vec![expression("key_of(id)")], "other"),
            (vec![expression("a"), expression("b")], "other"),
            (
                vec![template("order:<id>"), expression("b")],
                "order:<id>, other",
            ),
        ] {
            assert_eq!(label(&keys), expected);
        }
    }
}
