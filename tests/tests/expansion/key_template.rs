use leasehold::{LockError, distributed_lock};

use super::support::locked;

#[derive(Clone)]
struct Order {
    id: u64,
    user: User,
    pair: (u8, (u8, &'static str)),
    r#type: char,
}

#[derive(Clone)]
struct User {
    name: String,
}

impl Order {
    fn tenant(&self) -> &str {
        &self.user.name
    }

    const fn user(&self) -> &User {
        &self.user
    }

    #[distributed_lock(key = "{<self.tenant()>}:<self.id>:<self.user().name>", ttl = "1s", guard = lock)]
    async fn own(&self) -> Result<String, LockError> {
        Ok(lock.key().to_owned())
    }
}

#[distributed_lock(
    key = "<order.user.name>:<order.pair.0>:<order.pair.1.1>:<order.tenant()>:<order.r#type>",
    ttl = "1s",
    guard = lock
)]
async fn paths(order: Order) -> Result<String, LockError> {
    drop(order);
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = r#"a<<b>>"{tag}"#, ttl = "1s", guard = lock)]
async fn literal(tags: u8) -> Result<String, LockError> {
    let _ = tags;
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = "{<id>}:<name>", ttl = "1s", guard = lock)]
async fn encoded(id: &&&u64, name: &String) -> Result<String, LockError> {
    let _ = (id, name);
    Ok(lock.key().to_owned())
}

#[tokio::test]
async fn placeholders_insert_encoded_values() {
    let order = Order {
        id: 9,
        user: User { name: "ann".into() },
        pair: (1, (2, "x y")),
        r#type: 't',
    };
    locked(async {
        assert_eq!(order.own().await.as_deref(), Ok("{ann}:9:ann"));
        assert_eq!(paths(order).await.as_deref(), Ok("ann:1:x%20y:ann:t"));
        assert_eq!(literal(0).await.as_deref(), Ok("a<b>\"{tag}"));
        let name = String::from("a:b%{c}");
        assert_eq!(
            encoded(&&&7, &name).await.as_deref(),
            Ok("{7}:a%3Ab%25%7Bc%7D")
        );
    })
    .await;
}

#[distributed_lock(key = "order:<name>", ttl = "1s", guard = lock)]
async fn inserted(name: &str) -> Result<String, LockError> {
    let _ = name;
    Ok(lock.key().to_owned())
}

/// Fails if a key built with `encode` differs from the key of the annotated function.
#[tokio::test]
async fn encode_matches_the_template() {
    let names = [
        "plain",
        "a:b",
        "100%",
        "{tag}",
        "two words",
        "tab\t",
        "line\n",
        "%3A",
        "<x>",
        "Gr\u{fc}\u{df}e",
        "\u{2003}wide",
        "\u{7f}",
        "\0",
        "a/b?c=d&e",
        "'\"`",
    ];
    for name in names {
        let by_hand = format!("order:{}", leasehold::encode(name));
        assert_eq!(locked(inserted(name)).await, Ok(by_hand), "{name:?}");
    }
}
