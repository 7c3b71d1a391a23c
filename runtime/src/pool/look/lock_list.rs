//! The stream of locks that match a pattern.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

#[cfg(feature = "__remote")]
use futures_util::Stream;

use crate::error::LockError;
use crate::inspect::info::LockInfo;
use crate::inspect::pattern::Pattern;
use crate::pool::LockPool;
use crate::store::source::{Page, Place};

type Asking = Pin<Box<dyn Future<Output = Result<Page, LockError>> + Send>>;

/// The locks that match a pattern; see [`LockPool::locks`]. With the feature of any store on a
/// server, such as `redis`, this type implements `Stream`. Programs without the crate `futures` use
/// [`next`](Self::next).
///
/// Cancel safe: if the future of `next` is dropped, no lock of the list is skipped.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let pool = leasehold::LockPool::connect("memory://").await?;
/// let mut locks = pool.locks("*");
/// assert!(locks.next().await.is_none());
/// # Ok(()) }
/// ```
#[must_use = "streams do nothing unless polled"]
pub struct LockList {
    pool: LockPool,
    pattern: Pattern,
    page: VecDeque<LockInfo>,
    next: Next,
}

/// The next page of the list: its position in the list, the pending request for it, or the end of
/// the list.
enum Next {
    From(Place),
    Asking(Asking),
    End,
}

impl LockList {
    pub(super) fn new(pool: LockPool, pattern: Pattern) -> Self {
        Self {
            pool,
            pattern,
            page: VecDeque::new(),
            next: Next::From(Place::default()),
        }
    }

    /// Returns the next lock. Returns none at the end of the list, and after this method has
    /// returned an error.
    ///
    /// ```
    /// # async fn example(pool: leasehold::LockPool) -> Result<(), leasehold::LockError> {
    /// let mut locks = pool.locks("order:*");
    /// while let Some(lock) = locks.next().await {
    ///     println!("{:?}", lock?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<Result<LockInfo, LockError>> {
        poll_fn(|cx| self.poll_lock(cx)).await
    }

    fn ask(&self, from: Place) -> Asking {
        let (pool, pattern) = (self.pool.clone(), self.pattern.clone());
        Box::pin(async move { pool.observer().page(pattern, from).await })
    }

    fn poll_lock(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<LockInfo, LockError>>> {
        loop {
            if let Some(lock) = self.page.pop_front() {
                return Poll::Ready(Some(Ok(lock)));
            }
            match &mut self.next {
                Next::End => return Poll::Ready(None),
                Next::From(place) => {
                    let place = std::mem::take(place);
                    self.next = Next::Asking(self.ask(place));
                }
                Next::Asking(asking) => match ready!(asking.as_mut().poll(cx)) {
                    Ok(page) => {
                        self.page.extend(page.locks);
                        self.next = page.next.map_or(Next::End, Next::From);
                    }
                    Err(error) => {
                        self.next = Next::End;
                        return Poll::Ready(Some(Err(error)));
                    }
                },
            }
        }
    }
}

#[cfg(feature = "__remote")]
impl Stream for LockList {
    type Item = Result<LockInfo, LockError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_lock(cx)
    }
}

impl fmt::Debug for LockList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockList")
            .field("pattern", &self.pattern)
            .finish_non_exhaustive()
    }
}
