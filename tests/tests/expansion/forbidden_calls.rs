//! Calls of the functions in `forbidden` and `forbidden_too`. These modules cannot contain tests,
//! because `#[tokio::test]` expands to `allow` attributes, which the compiler rejects for a
//! forbidden lint.

use std::sync::Arc;
use std::time::Duration;

use leasehold::LockError;
use tokio::time::timeout;

use super::forbidden::{self, Account, Permit, Till as _};
use super::forbidden_too;
use super::support::{locked, pool};

async fn account(id: u64) -> Account {
    Account::new(id, 5, pool().await)
}

#[tokio::test]
async fn functions_with_explicit_returns_work() {
    locked(async {
        let note = String::new();
        assert_eq!(
            forbidden::create(1, note.clone(), Permit, vec![]).await,
            Ok(1)
        );
        assert_eq!(forbidden::one_line(2).await, Ok(2));
        assert_eq!(forbidden::every_option(3).await, Ok(3));
        assert_eq!(forbidden::search().await, Ok(()));
        assert_eq!(forbidden::call_partner().await, Ok(()));
        assert_eq!(forbidden::detached(4, note).await, Ok(4));
        assert_eq!(forbidden::replayed(5, vec![1]).await, Ok(5));
        assert_eq!(forbidden::sweep().await, Ok(1));
        forbidden::sweep_in_one_line().await;
        let generic = forbidden::generic::<_, _, LockError>(6, 'a').await;
        assert_eq!(generic, Ok(("6".to_owned(), 'a')));
        let page = forbidden::lifetimes("page", "a", 1).await;
        assert_eq!(page.map(|page| page.to_string()).as_deref(), Ok("page"));
        let sum = forbidden::patterns((1, 2), account(7).await, 0, 3).await;
        assert_eq!(sum, Ok(1 + 5 + 2 + 3));
        assert_eq!(forbidden::items(8).await, Ok(9));
        assert_eq!(forbidden::boxed(9).await, Ok(9));
        assert_eq!(forbidden::report(10, String::new()), Ok(10));
        assert_eq!(forbidden::every_blocking_option(11), Ok(11));
        assert_eq!(forbidden::replayed_blocking(12, vec![1]), Ok(12));
        assert_eq!(forbidden::stacked("t", 10).await.as_deref(), Ok("t10"));
    })
    .await;
}

#[tokio::test]
async fn methods_with_explicit_returns_work() {
    locked(async {
        let (mut one, two) = (account(1).await, account(2).await);
        assert_eq!(forbidden::transfer(&one, &two).await, Ok(10));
        assert_eq!(one.deposit(1).await, Ok(()));
        assert_eq!(one.balance().await, Ok(6));
        assert_eq!(one.withdraw(0), Ok(6));
        assert_eq!((one.pay(1).await, one.count(1).await), (Ok(7), Ok(1)));
        assert_eq!(one.close().await, Ok(6));
        assert_eq!(Arc::new(two).audit().await, Ok(5));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_function_may_never_return() {
    let ended = locked(timeout(Duration::from_secs(60), forbidden::work())).await;
    assert!(ended.is_err());
}

#[tokio::test]
async fn functions_without_return_work() {
    locked(async {
        assert_eq!(forbidden_too::create(1, String::new()).await, Ok(1));
        assert_eq!(forbidden_too::one_line(2).await, Ok(2));
        assert_eq!(forbidden_too::optional(3).await, Some(3));
        forbidden_too::sweep().await;
        assert_eq!(forbidden_too::detached(4).await, Ok(4));
        assert_eq!(forbidden_too::boxed(5).await, Ok(5));
        assert_eq!(forbidden_too::report(6), Ok(6));
        forbidden_too::sweep_blocking();
    })
    .await;
}
