use leasehold::{LockError, distributed_lock};

use super::support::locked;

macro_rules! constant_keys {
    ($($name:ident: $key:literal => $text:literal,)*) => {
        $(
            #[distributed_lock(key = $key, ttl = "1s", guard = lock)]
            async fn $name(id: u64, order: u64) -> Result<String, LockError> {
                let _ = (id, order);
                Ok(lock.key().to_owned())
            }
        )*

        #[tokio::test]
        async fn literal_key_text_is_used_unchanged() {
            locked(async {
                $(assert_eq!($name(4, 5).await.as_deref(), Ok($text), stringify!($name));)*
            })
            .await;
        }
    };
}

constant_keys! {
    percent: "cache:50%" => "cache:50%",
    encoded: "a%20b" => "a%20b",
    number: "jobs:#1" => "jobs:#1",
    two_colons: "report::daily" => "report::daily",
    mail: "user@example.org" => "user@example.org",
    word: "stock:order" => "stock:order",
    price: "price:$100" => "price:$100",
    question: "what?" => "what?",
    star: "orders:*" => "orders:*",
    brackets: "list[0](all)" => "list[0](all)",
    hash_tag: "{shop}:jobs" => "{shop}:jobs",
    angles: "a<<b>>c" => "a<b>c",
    arrow: "a->>b" => "a->b",
    named_part: "order:<order>:id:<id>" => "order:5:id:4",
    named_by_colons: "order::id::<id>" => "order::id::4",
    named_by_hash: "order#id:<id>" => "order#id:4",
}
