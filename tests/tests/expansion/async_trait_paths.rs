// The test needs the redundant `self::` of the paths below, because the macro could confuse it with
// the receiver `self`. An `on_error` function must take the error by value.
#![allow(unused_qualifications, clippy::needless_pass_by_value)]

use std::time::Duration;

use async_trait::async_trait;
use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

const KEY: &str = "a-path";
const TTL: Duration = Duration::from_secs(1);

fn map(error: LockError) -> String {
    error.to_string()
}

#[async_trait]
trait Reports {
    async fn render(&self, year: u32) -> String;
}

struct Yearly {
    name: &'static str,
}

#[async_trait]
impl Reports for Yearly {
    #[distributed_lock(key = self::KEY, ttl = self::TTL, on_error = self::map, guard = lock)]
    async fn render(&self, year: u32) -> String {
        tick().await;
        format!("{} {year} under {}", self.name, lock.key())
    }
}

/// The expansion gives the receiver `self` another name. Fails if the macro also replaces the
/// `self` of a path such as `self::KEY`.
#[tokio::test]
async fn self_in_a_path_is_not_the_receiver() {
    let sales = Yearly { name: "sales" };
    let rendered = locked(sales.render(2024)).await;
    assert_eq!(rendered, "sales 2024 under a-path");
    let refused = sales.render(2024).await;
    assert!(refused.contains("no lock pool is installed"), "{refused}");
}
