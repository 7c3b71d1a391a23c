use leasehold::{LockError, distributed_lock};

use super::support::locked;

#[distributed_lock(key = id + 1, ttl = "1s", guard = lock)]
async fn sum(id: u64) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = id % 16, ttl = "1s", guard = lock)]
async fn remainder(id: u64) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = (id % 16), ttl = "1s", guard = lock)]
async fn parenthesized(id: u64) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[derive(Clone, Copy)]
enum Channel {
    Web = 7,
}

#[distributed_lock(key = channel as u32, ttl = "1s", guard = lock)]
async fn cast(channel: Channel) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = -id, ttl = "1s", guard = lock)]
async fn negation(id: i64) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = *id, ttl = "1s", guard = lock)]
async fn dereference(id: &u64) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = &id, ttl = "1s", guard = lock)]
async fn reference(id: u64) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = id < 10, ttl = "1s", guard = lock)]
async fn comparison(id: u64) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = "order:".to_owned() + name, ttl = "1s", guard = lock)]
async fn joined(name: &str) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = if id > 9 { "many" } else { "few" }, ttl = "1s", guard = lock)]
async fn condition(id: u64) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = match id { 0 => "none", _ => "some" }, ttl = "1s", guard = lock)]
async fn choice(id: u64) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = [id / 10, id % 10], ttl = "1s", guard = lock)]
async fn elements(id: u64) -> Result<Vec<String>, LockError> {
    Ok(lock.keys().map(str::to_owned).collect())
}

#[tokio::test]
async fn arithmetic_is_a_valid_key() {
    locked(async {
        assert_eq!(sum(41).await.as_deref(), Ok("42"));
        assert_eq!(remainder(42).await.as_deref(), Ok("10"));
        assert_eq!(parenthesized(42).await.as_deref(), Ok("10"));
        assert_eq!(cast(Channel::Web).await.as_deref(), Ok("7"));
        assert_eq!(negation(7).await.as_deref(), Ok("-7"));
        assert_eq!(dereference(&7).await.as_deref(), Ok("7"));
        assert_eq!(reference(7).await.as_deref(), Ok("7"));
        assert_eq!(comparison(7).await.as_deref(), Ok("true"));
        assert_eq!(joined("a").await.as_deref(), Ok("order:a"));
        assert_eq!(condition(7).await.as_deref(), Ok("few"));
        assert_eq!(choice(7).await.as_deref(), Ok("some"));
        assert_eq!(elements(42).await, Ok(vec!["2".to_owned(), "4".to_owned()]));
    })
    .await;
}
