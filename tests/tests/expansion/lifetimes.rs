use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "word:<text>", ttl = "1s")]
async fn first(text: &str) -> Result<&str, LockError> {
    tick().await;
    Ok(text.split(' ').next().unwrap_or(text))
}

#[distributed_lock(key = "longer", ttl = "1s")]
async fn longer<'a>(left: &'a str, right: &'a str) -> Result<&'a str, LockError> {
    tick().await;
    Ok(if left.len() < right.len() {
        right
    } else {
        left
    })
}

struct View<'a> {
    text: &'a str,
}

impl<'a> View<'a> {
    #[distributed_lock(key = "view:<self.text>", ttl = "1s")]
    async fn rest(&self, at: usize) -> Result<&'a str, LockError> {
        tick().await;
        Ok(&self.text[at..])
    }

    #[distributed_lock(key = "view", ttl = "1s")]
    async fn set(&mut self, text: &'a str) -> Result<&mut Self, LockError> {
        tick().await;
        self.text = text;
        Ok(self)
    }
}

#[tokio::test]
async fn borrowed_results() {
    locked(async {
        assert_eq!(first("one two").await, Ok("one"));
        assert_eq!(longer("ab", "abc").await, Ok("abc"));
        let mut view = View { text: "hello" };
        assert_eq!(view.rest(2).await, Ok("llo"));
        assert_eq!(view.set("bye").await.unwrap().text, "bye");
    })
    .await;
}
