//! Losses of leases that a test has planned, and the points in time at which they happen.

use std::time::Duration;

use crate::base::clock::{Instant, earlier};

/// Point in time at which [`Kit::lose_when`](super::Kit::lose_when) takes a lock away.
///
/// ```
/// use std::time::Duration;
///
/// use leasehold::testing::{Kit, Point};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let kit = Kit::new();
/// kit.lose_when("order:42", Point::After(Duration::from_secs(2)));
/// let request = kit.pool().lock("order:42").ttl(Duration::from_secs(10));
/// let lost = request.run(std::future::pending::<()>()).await.unwrap_err();
/// assert!(lost.is_lost());
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Point {
    /// After this many polls of the body. The body is then dropped instead of being polled again.
    /// With 0 the body does not begin. A poll ends when the body waits for something. A body that
    /// never waits ends in its first poll, and is not interrupted.
    ///
    /// Applies to the bodies of annotated functions and of [`LockRequest::run`], because only
    /// bodies are polled. Does not apply to a [`LockGuard`](crate::LockGuard), which has no body.
    /// Not available on a server ([`Kit::on`]).
    ///
    /// [`LockRequest::run`]: crate::LockRequest::run
    /// [`Kit::on`]: super::Kit::on
    AfterPolls(u32),
    /// This long after the grant. A lock already held for longer is lost at once.
    After(Duration),
    /// At the next renewal. The store's answer to this renewal reports the lock gone. Needs a
    /// watchdog. Not available on a server ([`Kit::on`](super::Kit::on)).
    NextRenewal,
    /// After the body has returned, and before the store receives the release. So the release does
    /// not find the lock. An annotated function still returns its result, but
    /// [`LockGuard::release`] returns `Lost`. Not available on a server
    /// ([`Kit::on`](super::Kit::on)).
    ///
    /// [`LockGuard::release`]: crate::LockGuard::release
    BeforeRelease,
}

/// The planned losses that have not happened yet. Each loss happens once.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    /// The key as given to `lose_when`, without the namespace.
    key: String,
    point: Point,
}

impl Rules {
    pub(super) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, key: &str, point: Point) {
        let key = key.to_owned();
        self.0.push(Rule { key, point });
    }

    /// Removes the first planned loss of `key` that is due now. `now` returns true for the points
    /// that are due. Returns true if a loss was removed.
    pub(super) fn take(&mut self, key: &str, now: impl Fn(Point) -> bool) -> bool {
        let due = |rule: &Rule| rule.key == key && now(rule.point);
        let found = self.0.iter().position(due);
        found.map(|at| self.0.remove(at)).is_some()
    }

    /// Returns the time of the next planned loss with [`Point::After`]. `held` has each held key
    /// with the time of its grant.
    pub(super) fn next_due<'a>(
        &self,
        held: impl Iterator<Item = (&'a str, Instant)>,
    ) -> Option<Instant> {
        held.fold(None, |next, (key, since)| {
            let of_key = self.0.iter().filter(|rule| rule.key == key);
            let ends = of_key.filter_map(|rule| match rule.point {
                Point::After(time) => Some(since + time),
                _ => None,
            });
            earlier(next, ends.min())
        })
    }
}
