//! Checks the errors before a pool is installed, and at a second installation. Each error must
//! suggest a remedy. The test is in a separate program, because the installed pool belongs to the
//! process.

use std::time::{Duration, Instant};

use leasehold::{LockError, distributed_lock};
use leasehold_tests::lateness::Excuse;

const LIMIT: Duration = Duration::from_secs(2);

#[distributed_lock(key = "order:<id>", ttl = "5s")]
async fn installed(id: u32) -> Result<(), LockError> {
    unreachable!("a body without a lock")
}

#[track_caller]
fn mentions(error: &LockError, fragments: &[&str]) {
    let text = error.to_string();
    for fragment in fragments {
        assert!(text.contains(fragment), "no {fragment:?} in {text:?}");
    }
    assert!(!text.ends_with('.') && !text.contains('\n'), "{text:?}");
}

/// Fails if a body runs without a pool, or if a second pool replaces the first pool.
#[tokio::test]
async fn calls_need_the_one_installed_pool() {
    let (started, excuse) = (Instant::now(), Excuse::begin());
    let error = installed(1).await.expect_err("none is installed");
    assert!(matches!(error, LockError::NotInstalled), "{error:?}");
    mentions(&error, &["leasehold::init(\"redis://127.0.0.1/\").await?"]);

    let first = leasehold::init("memory://installed").await;
    first.expect("the first");
    let second = leasehold::init("memory://installed").await;
    let error = second.expect_err("there is one already");
    assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    mentions(&error, &["already", "install_as"]);
    assert!(started.elapsed() < LIMIT + excuse.so_far());
}
