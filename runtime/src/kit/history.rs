//! History of the locks of a kit's store.

use std::collections::BTreeMap;
use std::fmt;
use std::slice;
use std::time::Duration;

use super::event::{Caller, Event, EventKind, Mode};

/// Events of the locks of a kit's store, in order, up to the call of
/// [`Kit::history`](super::Kit::history).
///
/// `Display` and `Debug` show a table with one line for each event, and mark each overlap (see
/// [`is_exclusive`](Self::is_exclusive)). Use the history as the message of an assertion:
///
/// ```
/// # use std::time::Duration;
/// use leasehold::testing::Kit;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let kit = Kit::new();
/// let other = kit.hold("order:42").await;
/// let refused = kit.pool().lock("order:42").ttl(Duration::from_secs(10)).acquire().await;
/// assert!(refused.is_err());
/// other.release().await;
///
/// let history = kit.history();
/// assert!(history.is_exclusive(), "{history}");
/// assert_eq!((history.grants(), history.refusals(), history.releases()), (1, 1, 1));
/// # assert!(history.to_string().contains("call 1   order:42  refused, contended"));
/// # }
/// ```
///
/// ```text
///        0.000s  other 1  order:42  granted, exclusive
///        0.000s  call 1   order:42  refused, contended
///        0.000s  other 1  order:42  released
/// ```
#[derive(Clone, Default)]
#[must_use = "a history does nothing unless it is read"]
pub struct History {
    events: Vec<Event>,
}

/// A holder of a lock at one point in the history.
struct Holder<'a> {
    event: usize,
    caller: &'a Caller,
    mode: Mode,
    until: Duration,
}

/// True if a lock of this mode can be granted while `others` hold the same key.
fn fits(mode: Mode, others: &[Holder<'_>]) -> bool {
    others.iter().all(|other| match (mode, other.mode) {
        (Mode::Shared, Mode::Shared) => true,
        (Mode::Permit(one), Mode::Permit(two)) => others.len() < one.max(two) as usize,
        _ => false,
    })
}

impl History {
    pub(super) fn new(events: Vec<Event>) -> Self {
        Self { events }
    }

    /// True if no two holders that exclude each other had a key at the same time. Examples of such
    /// an overlap are a second exclusive holder, a shared holder beside an exclusive one, and one
    /// permit too many.
    ///
    /// A holder has its lock from the grant until the release, the loss, the death of its process
    /// or the end of its lease, whichever comes first.
    ///
    /// ```
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// let (one, two) = (kit.hold("report").permits(2).await, kit.hold("report").permits(2).await);
    /// assert!(kit.history().is_exclusive(), "{}", kit.history());
    /// # drop((one, two));
    /// # }
    /// ```
    pub fn is_exclusive(&self) -> bool {
        self.overlaps().is_empty()
    }

    /// Returns the events of one key, given without its namespace.
    ///
    /// ```
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// let (_one, _two) = (kit.hold("order:1").await, kit.hold("order:2").await);
    /// assert_eq!(kit.history().of("order:2").grants(), 1);
    /// # }
    /// ```
    pub fn of(&self, key: &str) -> Self {
        let of_key = |event: &&Event| event.key == key;
        Self::new(self.events.iter().filter(of_key).cloned().collect())
    }

    /// Returns an iterator over the events, in order.
    ///
    /// ```
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// kit.hold("order:42").await.release().await;
    /// let keys: Vec<_> = kit.history().iter().map(|event| event.key.clone()).collect();
    /// assert_eq!(keys, ["order:42", "order:42"]); // granted, released
    /// # }
    /// ```
    pub fn iter(&self) -> slice::Iter<'_, Event> {
        self.events.iter()
    }

    /// Returns the number of events.
    ///
    /// ```
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// assert_eq!(Kit::new().history().len(), 0);
    /// # }
    /// ```
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// True if there are no events.
    ///
    /// ```
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// assert!(Kit::new().history().is_empty());
    /// # }
    /// ```
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns the number of grants.
    ///
    /// ```
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// let _other = kit.hold("order:42").await;
    /// assert_eq!(kit.history().grants(), 1);
    /// # }
    /// ```
    pub fn grants(&self) -> usize {
        self.count(|kind| matches!(kind, EventKind::Granted { .. }))
    }

    /// Returns the number of lease renewals.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// let _other = kit.hold("order:42").await; // its watchdog renews it
    /// tokio::time::sleep(Duration::from_secs(60)).await;
    /// assert!(kit.history().renewals() > 10);
    /// # }
    /// ```
    pub fn renewals(&self) -> usize {
        self.count(|kind| *kind == EventKind::Renewed)
    }

    /// Returns the number of lost leases, including losses detected only at the release.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let kit = Kit::new();
    /// let guard = kit.pool().lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
    /// tokio::time::sleep(Duration::from_secs(10)).await; // without a watchdog
    /// assert_eq!(kit.history().losses(), 1);
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn losses(&self) -> usize {
        self.count(|kind| matches!(kind, EventKind::Lost | EventKind::GoneAtRelease))
    }

    /// Returns the number of locks given back, by a release or by a drop.
    ///
    /// ```
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// kit.hold("order:42").await.release().await;
    /// assert_eq!(kit.history().releases(), 1);
    /// # }
    /// ```
    pub fn releases(&self) -> usize {
        self.count(|kind| matches!(kind, EventKind::Released | EventKind::Dropped))
    }

    /// Returns the number of requested locks that the store or the pool refused. Calls that are
    /// refused before their request do not count, such as calls with invalid settings.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// let _other = kit.hold("order:42").await;
    /// let refused = kit.pool().lock("order:42").ttl(Duration::from_secs(10)).acquire().await;
    /// assert!(refused.is_err());
    /// assert_eq!(kit.history().refusals(), 1);
    /// # }
    /// ```
    pub fn refusals(&self) -> usize {
        self.count(|kind| matches!(kind, EventKind::Refused(_)))
    }

    fn count(&self, counts: impl Fn(&EventKind) -> bool) -> usize {
        self.iter().filter(|event| counts(&event.kind)).count()
    }

    /// Finds each grant to a caller while other holders of the key exclude this caller. Maps the
    /// index of this event to that of the earliest grant among the other holders.
    fn overlaps(&self) -> BTreeMap<usize, usize> {
        let mut overlaps = BTreeMap::new();
        let mut held: BTreeMap<&str, Vec<Holder<'_>>> = BTreeMap::new();
        for (index, event) in self.iter().enumerate() {
            let holders = held.entry(&event.key).or_default();
            let mine = |holder: &Holder<'_>| *holder.caller == event.caller;
            match &event.kind {
                EventKind::Granted { mode, .. } => {
                    holders.retain(|holder| event.at < holder.until);
                    if let Some(other) = holders.first()
                        && !fits(*mode, holders)
                    {
                        overlaps.insert(index, other.event);
                    }
                    holders.push(Holder {
                        event: index,
                        caller: &event.caller,
                        mode: *mode,
                        until: event.until.unwrap_or(Duration::MAX),
                    });
                }
                EventKind::Renewed => {
                    for holder in holders.iter_mut().filter(|holder| mine(holder)) {
                        holder.until = event.until.unwrap_or(Duration::MAX);
                    }
                }
                EventKind::Downgraded => {
                    for holder in holders.iter_mut().filter(|holder| mine(holder)) {
                        holder.mode = Mode::Shared;
                    }
                }
                EventKind::Lost
                | EventKind::Released
                | EventKind::Dropped
                | EventKind::Died
                | EventKind::GoneAtRelease => holders.retain(|holder| !mine(holder)),
                EventKind::Refused(_) => {}
            }
        }
        overlaps
    }
}

impl<'a> IntoIterator for &'a History {
    type Item = &'a Event;
    type IntoIter = slice::Iter<'a, Event>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return writeln!(f, "nothing has happened");
        }
        let overlaps = self.overlaps();
        let width = |text: fn(&Event) -> String| {
            let widths = self.iter().map(|event| text(event).chars().count());
            widths.max().unwrap_or_default()
        };
        let (callers, keys) = (
            width(|event| event.caller.to_string()),
            width(|event| event.key.clone()),
        );
        for (index, event) in self.iter().enumerate() {
            let caller = event.caller.to_string();
            write!(
                f,
                "{:>13}  {caller:callers$}  {:keys$}  {}",
                seconds(event.at),
                event.key,
                event.kind
            )?;
            if let Some(other) = overlaps
                .get(&index)
                .and_then(|other| self.events.get(*other))
            {
                write!(
                    f,
                    "   <-- OVERLAPS: {} has had it since {}",
                    other.caller,
                    seconds(other.at)
                )?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.3}s", time.as_secs_f64())
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{self}")
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
