//! Inspects the locks of one database, and takes them away.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use tokio_postgres::types::Type;
use tokio_postgres::{Error, Row};

use super::address::Address;
use super::connection::{self, Opened};
use super::failure;
use super::functions::Typed;
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::fence::Fence;
use crate::inspect::info::{Holder, LockInfo, LockState, Waiter};
use crate::inspect::pattern::Pattern;
use crate::key;
use crate::owner::Owner;
use crate::store::options::Options;
use crate::store::source::{Asking, MOST_TOLD, PAGE, Page, Place, Source};
use crate::store::{Failure, Retry};

const LOOK: &str = "SELECT * FROM leasehold.look($1)";

/// Query for the server's time in microseconds.
const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now";

/// Takes the lock `$1` away, unless the server's time is after `$2`. Returns at least one row.
const TAKE_AWAY: &str = "SELECT t.*, c.late FROM \
    (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint > $2 AS late OFFSET 0) c \
    LEFT JOIN LATERAL leasehold.take_away(CASE WHEN NOT c.late THEN $1 END) t ON true";

/// Query for the next keys after `$1`, in the order of their bytes, whose locks are taken or
/// pinned. A transaction pins a lock by locking its row.
const KEYS: &str = "SELECT l.key FROM leasehold.locks l WHERE l.key > $1 AND l.key >= $2 AND l.key < $3 \
    AND (l.state <> 'free' AND l.expires_at > clock_timestamp() \
         OR l.xmax <> '0'::xid \
            AND EXISTS (SELECT FROM pg_locks k WHERE k.relation = 'leasehold.locks'::regclass \
                        AND k.mode = 'RowShareLock' AND k.pid IS DISTINCT FROM pg_backend_pid()) \
            AND leasehold._pin(l.xmax) IS NOT NULL) ORDER BY l.key LIMIT $4";

/// A text that sorts after every key, because it repeats the last Unicode character more often than
/// a key can.
static LAST: LazyLock<String> = LazyLock::new(|| {
    char::MAX
        .to_string()
        .repeat(key::MAX_LEN / char::MAX.len_utf8() + 1)
});

/// Inspects the locks of one database, over a separate connection.
pub(crate) struct PostgresSource {
    address: Arc<Address>,
    namespace: String,
    limit: Duration,
    open: Option<Opened>,
}

impl PostgresSource {
    pub(crate) fn new(address: Address, options: &Options) -> Self {
        Self {
            address: Arc::new(address),
            namespace: options.namespace.clone(),
            limit: options.io_timeout,
            open: None,
        }
    }

    /// Returns the rows of `query`. If a connection from an earlier query fails, repeats the query
    /// on a new one.
    async fn ask(&mut self, query: &str, parameters: &Typed<'_>) -> Result<Vec<Row>, Failure> {
        if let Some(opened) = self.open.take()
            && let Ok(rows) = self.ask_over(opened, query, parameters).await
        {
            return Ok(rows);
        }
        // This connection waits for no lock, so it does not listen for notifications.
        let opening = connection::open(Arc::clone(&self.address), None, self.limit);
        let opened = opening.await?;
        self.ask_over(opened, query, parameters).await
    }

    async fn ask_over(
        &mut self,
        mut opened: Opened,
        query: &str,
        parameters: &Typed<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let rows = opened.query(query, parameters, self.limit).await?;
        self.open = Some(opened);
        Ok(rows)
    }

    async fn look_at(&mut self, keys: &[FullKey]) -> Result<Vec<LockInfo>, Failure> {
        let rows = self.ask(LOOK, &[(&keys, Type::TEXT_ARRAY)]).await?;
        shown(keys, &rows).map_err(|error| failure::of(&error))
    }

    async fn take(&mut self, key: &FullKey) -> Result<LockInfo, Failure> {
        // This query is sent once, over a connection that has just answered, and only counts if it
        // arrives in time. If its first run freed the lock, a second run would take the lock from
        // its next holder, and so would a run that was held up on its way.
        let now = self.ask(NOW, &[]).await?;
        let answered_at = Instant::now();
        let now = now.first().map_or(Ok(0), |row| row.try_get("now"));
        let now: i64 = now.map_err(|error| failure::of(&error))?;
        let limit = (answered_at.elapsed() + self.limit).as_micros();
        let until = match i64::try_from(limit) {
            Ok(limit) if !seeded!(LateReleaseServed) => now.saturating_add(limit),
            _ => i64::MAX,
        };
        let parameters: &Typed<'_> = &[(key, Type::TEXT), (&until, Type::INT8)];
        let rows = match self.open.take_if(|_| !seeded!(ForcedReleaseRepeated)) {
            Some(opened) => self.ask_over(opened, TAKE_AWAY, parameters).await?,
            None => self.ask(TAKE_AWAY, parameters).await?,
        };
        let is_late = rows.first().map_or(Ok(false), |row| row.try_get("late"));
        if is_late.map_err(|error| failure::of(&error))? {
            let text =
                "the request arrived too late, or the server's clock was set; nothing was changed";
            return Err(Failure::unavailable(
                "LATE",
                text.to_owned(),
                Retry::Later,
                false,
            ));
        }
        let shown = shown(std::slice::from_ref(key), &rows);
        let lock = one(shown.map_err(|error| failure::of(&error))?, key)?;
        match (lock.state, lock.holders.first()) {
            (LockState::Pinned, Some(pin)) => Err(failure::pinned(key.name(), pin)),
            _ => Ok(lock),
        }
    }

    async fn some(&mut self, pattern: &Pattern, after: &str) -> Result<Page, Failure> {
        let prefix = FullKey::new(&self.namespace, "");
        let first = format!("{}{}", &*prefix, pattern.beginning());
        let (last, most) = (
            format!("{first}{}", *LAST),
            i64::try_from(PAGE).unwrap_or(i64::MAX),
        );
        let parameters: &Typed<'_> = &[
            (&after, Type::TEXT),
            (&first, Type::TEXT),
            (&last, Type::TEXT),
            (&most, Type::INT8),
        ];
        let rows = self.ask(KEYS, parameters).await?;
        let found: Result<Vec<String>, Error> = rows.iter().map(|row| row.try_get("key")).collect();
        let found = found.map_err(|error| failure::of(&error))?;
        let names = found.iter().filter_map(|key| key.strip_prefix(&*prefix));
        let names = names.filter(|name| pattern.matches(name) && key::is_lock(name));
        let keys: Vec<_> = names
            .map(|name| FullKey::new(&self.namespace, name))
            .collect();
        let mut locks = if keys.is_empty() {
            Vec::new()
        } else {
            self.look_at(&keys).await?
        };
        locks.retain(LockInfo::is_taken);
        let next = found.last().filter(|_| found.len() == PAGE);
        Ok(Page {
            locks,
            next: next.map(|last| Place(last.clone())),
        })
    }
}

impl Source for PostgresSource {
    fn look<'a>(&'a mut self, key: &'a FullKey) -> Asking<'a, LockInfo> {
        Box::pin(async move {
            let looked = self.look_at(std::slice::from_ref(key)).await;
            let looked = looked.and_then(|locks| one(locks, key));
            looked.map_err(|failure| failure.error)
        })
    }

    fn page<'a>(&'a mut self, pattern: &'a Pattern, place: Place) -> Asking<'a, Page> {
        Box::pin(async move {
            let page = self.some(pattern, &place.0).await;
            page.map_err(|failure| failure.error)
        })
    }

    fn take_away<'a>(&'a mut self, key: &'a FullKey) -> Asking<'a, LockInfo> {
        Box::pin(async move {
            let taken = self.take(key).await;
            taken.map_err(|failure| failure.error)
        })
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it ends a chain of outcomes")]
fn one(mut locks: Vec<LockInfo>, key: &FullKey) -> Result<LockInfo, Failure> {
    Ok(locks.pop().unwrap_or_else(|| LockInfo::free(key.name())))
}

/// Reads the information on each lock from the rows, in the order of `keys`.
fn shown(keys: &[FullKey], rows: &[Row]) -> Result<Vec<LockInfo>, Error> {
    let mut locks: Vec<_> = keys.iter().map(|key| LockInfo::free(key.name())).collect();
    for row in rows {
        // If the lock is free, `TAKE_AWAY` returns a row without a key.
        let name: Option<&str> = row.try_get("key")?;
        let known = keys.iter().position(|key| name == Some(&**key));
        if let Some(lock) = known.and_then(|at| locks.get_mut(at)) {
            show(lock, row)?;
        }
    }
    Ok(locks)
}

/// Adds the information of a row to `lock`.
fn show(lock: &mut LockInfo, row: &Row) -> Result<(), Error> {
    let micros = |name| row.try_get::<_, Option<i64>>(name).map(time);
    let (now, since, ends) = (micros("now")?, micros("since")?, micros("ends")?);
    let now = now.unwrap_or_else(SystemTime::now);
    let owner: Option<&str> = row.try_get("owner")?;
    let owner = owner.and_then(Owner::read);
    let since = since.map(|since| since.min(now));
    let state: &str = row.try_get("state")?;
    let fence: i64 = row.try_get("fence")?;
    let fence = (0 < fence).then(|| Fence::new(fence.unsigned_abs()));
    let holder = || Holder {
        owner: owner.clone(),
        since: since.filter(|_| fence.is_some()),
        fence,
        revoked: state == "revoked",
        ..Holder::unknown(ends.map(|ends| ends.duration_since(now).unwrap_or_default()))
    };
    let most: i32 = row.try_get("most")?;
    match (row.try_get("part")?, state) {
        ("waiter", _) if lock.waiting.len() < MOST_TOLD => {
            lock.waiting.push(Waiter { owner, since });
        }
        ("share", _) if lock.holders.len() < MOST_TOLD => lock.holders.push(holder()),
        ("lock", "held" | "revoked") => {
            lock.state = LockState::Exclusive;
            lock.fence = fence;
            lock.holders.push(holder());
        }
        ("lock", "kept") => {
            lock.state = LockState::Kept;
            lock.fence = fence;
            lock.kept_until = ends;
        }
        ("lock", "handed") => lock.state = LockState::Handed,
        ("pin", _) => {
            // If the lease ends during the query, it also returns the lock's row.
            *lock = LockInfo {
                state: LockState::Pinned,
                holders: vec![Holder {
                    owner,
                    ..Holder::foreign(None)
                }],
                ..LockInfo::free(&lock.key)
            };
        }
        ("lock", "shared") => {
            lock.fence = fence;
            lock.state = match most.unsigned_abs() {
                0 => LockState::Shared,
                limit => LockState::Permits { limit },
            };
        }
        _ => {}
    }
    Ok(())
}

fn time(micros: Option<i64>) -> Option<SystemTime> {
    let since = Duration::from_micros(u64::try_from(micros?).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(since)
}
