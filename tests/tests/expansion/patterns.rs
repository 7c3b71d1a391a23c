use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

struct Path<T>(T);

struct Line {
    sku: String,
    count: u32,
}

#[distributed_lock(key = "item:<sku>:<id>:<b>", ttl = "1s")]
async fn take(
    Path(id): Path<u64>,
    Line { sku, count: n }: Line,
    (a, (b, _)): (u8, (u8, u8)),
    [first, .., last]: [char; 3],
    &flag: &bool,
    whole @ (left, _): (u8, u8),
) -> Result<String, LockError> {
    tick().await;
    Ok(format!(
        "{id}{sku}{n}{a}{b}{first}{last}{flag}{left}{}",
        whole.1
    ))
}

#[distributed_lock(key = "item:<sku>", ttl = "1s")]
async fn mutable(Line { mut sku, .. }: Line, (mut n, _): (u8, u8)) -> Result<String, LockError> {
    tick().await;
    n += 1;
    sku.push('!');
    Ok(format!("{sku}{n}"))
}

fn line() -> Line {
    Line {
        sku: "lamp".into(),
        count: 2,
    }
}

#[tokio::test]
async fn names_in_patterns_are_usable() {
    locked(async {
        let text = take(Path(1), line(), (2, (3, 4)), ['x', 'y', 'z'], &true, (8, 9)).await;
        assert_eq!(text.as_deref(), Ok("1lamp223xztrue89"));
        assert_eq!(mutable(line(), (1, 1)).await.as_deref(), Ok("lamp!2"));
        assert_eq!(line().count, 2);
    })
    .await;
}
