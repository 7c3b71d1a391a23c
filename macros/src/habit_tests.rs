use super::*;

/// Returns the messages about a text in a function with the arguments `self`, `id` and `order`.
fn warnings(text: &str, inserted: &[&str]) -> Vec<String> {
    let names = Names {
        arguments: vec!["self", "id", "order"],
        inserted: inserted.to_vec(),
    };
    let text = Text {
        text,
        continues: !inserted.is_empty(),
    };
    let messages = find(text, &names).into_iter();
    messages
        .map(|message| format!("{} / {}", message.what, message.help.unwrap_or_default()))
        .collect()
}

/// Fails if a key with another tool's placeholder is accepted: all calls would share one lock.
#[test]
fn an_error_suggests_the_placeholder_to_write() {
    for (text, written, meant) in [
        ("order:$id", "`$id`", "`<id>`"),
        ("order:${id}", "`${id}`", "`<id>`"),
        ("order:$(id)", "`$(id)`", "`<id>`"),
        ("order:#id", "`#id`", "`<id>`"),
        ("order:#{id}", "`#{id}`", "`<id>`"),
        ("order:%{id}", "`%{id}`", "`<id>`"),
        ("order:@{id}", "`@{id}`", "`<id>`"),
        ("order:%(id)s", "`%(id)s`", "`<id>`"),
        ("order:%id%", "`%id%`", "`<id>`"),
        ("order:{{id}}", "`{{id}}`", "`<id>`"),
        ("order:{{ order.id }}", "`{{ order.id }}`", "`<order.id>`"),
        ("order:{id}", "`{id}`", "`{<id>}`"),
        ("order:{ id }", "`{ id }`", "`{<id>}`"),
        ("order:{id:?}", "`{id:?}`", "`{<id>}`"),
        ("order:[id]", "`[id]`", "`<id>`"),
        ("order:[[id]]", "`[[id]]`", "`<id>`"),
        ("order:(id)", "`(id)`", "`<id>`"),
        ("order:\\(id)", "`\\(id)`", "`<id>`"),
        ("order:*id", "`*id`", "`<id>`"),
        ("order:&id", "`&id`", "`<id>`"),
        ("order:@id", "`@id`", "`<id>`"),
        ("order@id", "`@id`", "`<id>`"),
        ("order/:id", "`:id`", "`<id>`"),
        ("order::id", "`:id`", "`<id>`"),
        (":id", "`:id`", "`<id>`"),
        ("order:#order.id", "`#order.id`", "`<order.id>`"),
        ("order:#self.id", "`#self.id`", "`<self.id>`"),
        ("order:<id>", "`<<id>>`", "`<id>`"),
        ("order:id", "`id`", "`<id>`"),
        ("order/order.id", "`order.id`", "`<order.id>`"),
        ("id", "`id`", "`<id>`"),
        ("order:%s", "`%s`", "`<id>`"),
        ("order:%08d", "`%08d`", "`<id>`"),
        ("order:%1$s", "`%1$s`", "`<id>`"),
        ("day:%Y", "`%Y`", "`<id>`"),
        ("order:?", "`?`", "`<id>`"),
        ("order:$1", "`$1`", "`<id>`"),
        ("order:{}", "`{}`", "`<id>`"),
        ("order:{0}", "`{0}`", "`<id>`"),
        ("order:{:?}", "`{:?}`", "`<id>`"),
        ("order:${}", "`${}`", "`<id>`"),
        ("order:${oder}", "`${oder}`", "`<order>`"),
        ("order:{{number}}", "`number` is not an argument", "`<id>`"),
    ] {
        let warnings = warnings(text, &[]);
        assert_eq!(warnings.len(), 1, "{text}: {warnings:?}");
        assert!(warnings[0].contains(written), "{text}: {warnings:?}");
        assert!(warnings[0].contains(meant), "{text}: {warnings:?}");
    }
}

/// Fails if a key is refused because its text resembles the placeholder of another tool.
#[test]
fn literal_keys_are_accepted() {
    for text in [
        "cache:50%",
        "50%-off",
        "a%20b",
        "a%3d",
        "jobs:#1",
        "C#",
        "report::daily",
        "a/:b",
        "user@example.org",
        "stock:order",
        "order",
        "reprice:order:all",
        "{shop}:jobs",
        "{order:all}",
        "{id.}",
        "#{shop}",
        "price:$100",
        "what?",
        "a?b=c",
        "orders:*",
        "(all)",
        "list[0]",
        "f(x)",
        "$tenant",
        "<order2>",
        "ids",
        "grid:order_id2",
    ] {
        assert_eq!(warnings(text, &[]), Vec::<String>::new(), "{text}");
    }
}

/// A key that inserts `<id>` may also contain `@id` or `$1` as plain text. Fails if such a key is
/// refused. Also fails if the key is accepted with `${id}`, or with `#order`, where `order` is an
/// argument that the key does not insert.
#[test]
fn an_inserted_argument_can_be_named() {
    for text in ["id:", ":id", "::id", "#id:", "@id", "[id]", "order:$1"] {
        assert_eq!(warnings(text, &["id"]), Vec::<String>::new(), "{text}");
    }
    for text in ["${id}", "{id}", "{}", "%s", ":?", "#order", "${order}"] {
        assert_eq!(warnings(text, &["id"]).len(), 1, "{text}");
    }
}

#[test]
fn positional_placeholders_need_arguments() {
    let names = Names {
        arguments: Vec::new(),
        inserted: Vec::new(),
    };
    let warnings = |text| {
        let text = Text {
            text,
            continues: false,
        };
        find(text, &names).len()
    };
    for text in ["a:?", "a:$1", "{0}", "id", "a:{id}", "a:$id"] {
        assert_eq!(warnings(text), 0, "{text}");
    }
    for text in ["a:{}", "a:%s", "${ENV}:jobs"] {
        assert_eq!(warnings(text), 1, "{text}");
    }
}
