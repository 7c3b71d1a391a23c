use super::*;

/// Returns the pieces in one line: literal text in quotes, placeholders in angle brackets.
fn pieces(text: &str) -> String {
    let template = Template::parse(text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => format!("{text:?}"),
        Piece::Value(value) => format!("<{} {:?}>", value.root, value.path),
    };
    template
        .pieces
        .iter()
        .map(piece)
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn templates_consist_of_text_and_placeholders() {
    for (text, expected) in [
        ("job", r#""job""#),
        ("order:<id>", r#""order:" <id []>"#),
        ("<id>", "<id []>"),
        ("<a>:<b>", r#"<a []> ":" <b []>"#),
        ("{<tenant>}:order", r#""{" <tenant []> "}:order""#),
        ("a<<b", r#""a<b""#),
        ("a<<<id>>>", r#""a<" <id []> ">""#),
        ("a>>b", r#""a>b""#),
        ("<<id>>", r#""<id>""#),
        ("<Self::KIND>", "<Self::KIND []>"),
        ("<crate::kind::SHARD.0>", "<crate::kind::SHARD [Index(0)]>"),
        ("<order.user_id>", r#"<order [Field("user_id")]>"#),
        ("<pair.0>", "<pair [Index(0)]>"),
        ("<pair.0.1>", "<pair [Index(0), Index(1)]>"),
        ("<req.tenant()>", r#"<req [Method("tenant")]>"#),
        (
            "<self.a.b().0>",
            r#"<self [Field("a"), Method("b"), Index(0)]>"#,
        ),
        ("<r#type>", "<r#type []>"),
        ("<größe>", "<größe []>"),
    ] {
        assert_eq!(pieces(text), expected, "{text}");
    }
}

/// Fails if a template is accepted, or is refused with a message other than the expected one.
fn refused(text: &str, what: &str, help: &str) {
    let errors = Template::parse(text).expect_err(text);
    assert_eq!(errors.len(), 1, "{text}: {errors:?}");
    assert!(errors[0].what.contains(what), "{text}: {errors:?}");
    assert!(
        errors[0].help.as_deref().unwrap_or("").contains(help),
        "{text}: {errors:?}"
    );
}

#[test]
fn every_mistake_has_its_own_message() {
    for (text, what, help) in [
        ("", "the key is empty", "order:<id>"),
        ("a:<>", "the placeholder `<>` of the key is empty", "`<id>`"),
        (
            "a:< >",
            "the placeholder `< >` of the key is empty",
            "`<id>`",
        ),
        (
            "a:<id",
            "the placeholder `<id` of the key is not closed",
            "close it as `<id>`",
        ),
        ("a < b", "is not closed", "write `<<`"),
        ("<a><b>", "nothing separates `<a>` from `<b>`", "`<a>:<b>`"),
        (
            "<a>-<b>",
            "`-` does not separate `<a>` from `<b>`",
            "`<a>:<b>`",
        ),
        (
            "<a>:<b>/<c>",
            "`/` does not separate `<b>` from `<c>`",
            "`<b>:<c>`",
        ),
        ("%leasehold:x", "reserved for leasehold", "another name"),
        (
            "<id>:%leasehold:x",
            "reserved for leasehold",
            "another name",
        ),
    ] {
        refused(text, what, help);
    }
}

#[test]
fn every_malformed_placeholder_has_its_own_message() {
    for (text, what, help) in [
        ("< id >", "`< id >` is not a placeholder", "`<id>`"),
        ("<id:?>", "`<id:?>` is not a placeholder", "`<id>`"),
        ("<&id>", "`<&id>` is not a placeholder", "borrowed anyway"),
        ("<a+b>", "`<a+b>` is not a placeholder", "format!"),
        ("<a[0]>", "`<a[0]>` is not a placeholder", "format!"),
        ("<a.+1>", "`<a.+1>` is not a placeholder", "format!"),
        ("<f(a)>", "`<f(a)>` is not a placeholder", "format!"),
        ("<Self::>", "`<Self::>` is not a placeholder", "format!"),
        (
            "<int:id>",
            "`<int:id>` is not a placeholder",
            "format: `<id>`",
        ),
        ("<$id>", "`<$id>` is not a placeholder", "write `<id>`"),
        ("<:order.id>", "not a placeholder", "write `<order.id>`"),
        ("<%= id %>", "not a placeholder", "write `<id>`"),
        ("<id as u32>", "not a placeholder", "format!"),
        (
            "a:<id>>",
            "a `>` in the key does not close a placeholder",
            "`>>`",
        ),
        (
            "a:id>",
            "a `>` in the key does not close a placeholder",
            "write `<id>`",
        ),
        (
            "a:<<id>",
            "a `>` in the key does not close a placeholder",
            "write `<id>`",
        ),
        (
            "a->b",
            "a `>` in the key does not close a placeholder",
            "`>>`",
        ),
        ("<f::<u8>()>", "not a placeholder", "format!"),
        (
            "<a.b(1)>",
            "`<a.b(1)>` is not a placeholder",
            "takes no arguments",
        ),
        ("<a.>", "`<a.>` is not a placeholder", "format!"),
        ("<a..b>", "`<a..b>` is not a placeholder", "format!"),
        ("<0>", "`<0>` is not a placeholder", "format!"),
        ("<_>", "`<_>` is not a placeholder", "format!"),
    ] {
        refused(text, what, help);
    }
}

#[test]
fn several_mistakes_are_reported_together() {
    assert_eq!(Template::parse("<>:<a b>:<c").unwrap_err().len(), 3);
    assert_eq!(Template::parse("<a><b><c>").unwrap_err().len(), 2);
}

#[test]
fn literal_text_counts_against_the_limit() {
    assert!(Template::parse(&"k".repeat(512)).is_ok());
    let errors = Template::parse(&"k".repeat(513)).unwrap_err();
    assert!(errors[0].what.contains("513 bytes"), "{errors:?}");
}

#[test]
fn reserved_text_is_refused_only_at_the_start() {
    assert!(Template::parse("my%leasehold").is_ok());
    assert!(Template::parse("<id>:%leasehold").is_ok());
}
