//! `leasehold show`: everything about one lock.

use std::time::SystemTime;

use leasehold::{Holder, LockInfo};

use super::{screen, text, to_json, with_place};
use crate::args::Store;
use crate::exit;
use crate::failure::Failure;
use crate::output;

/// Width of the column with the names of the properties.
const NAMES: usize = 14;

/// Prints everything the store knows about a lock, held or free.
pub(crate) async fn show(store: &Store, key: &str, json: bool) -> Result<u8, Failure> {
    let pool = store.connect().await?;
    let lock = pool.inspect(key).await?;
    if json {
        output::line(&with_place(to_json(&lock), &pool));
    } else {
        let room = screen::width().unwrap_or(usize::MAX);
        let room = room.saturating_sub(NAMES).max(1);
        let lines = describe(&lock, &text::place(&pool), room, SystemTime::now());
        output::line(&lines.join("\n"));
    }
    Ok(exit::SUCCESS)
}

/// Returns the lines for each known property. A value has at most `room` columns in a line.
fn describe(lock: &LockInfo, place: &str, room: usize, now: SystemTime) -> Vec<String> {
    let state = match text::kind(lock) {
        kind if lock.is_taken() => kind,
        free => format!("{free} {place}"),
    };
    let mut key = text::plain(&lock.key);
    if text::SHORTEST_KEY <= room {
        key = text::shortened(&key, room);
    }
    let mut properties = vec![("key", key), ("state", state)];
    for holder in &lock.holders {
        properties.extend(of_holder(holder, now));
    }
    if let Some(kept) = text::until(lock.kept_until, now) {
        properties.push(("kept for", text::span(kept)));
    }
    for waiter in &lock.waiting {
        properties.push(("waiting", text::owner(waiter.owner.as_ref())));
        properties.extend(since(waiter.since, now));
    }
    if let Some(fence) = lock.fence {
        properties.push(("fence", fence.get().to_string()));
    }
    if let Some(nodes) = lock.nodes {
        properties.push(("nodes", format!("{nodes} answered")));
    }
    let lines = properties.iter().flat_map(|(name, value)| {
        let lines = text::wrapped(value, room).into_iter();
        let names = std::iter::once(*name).chain(std::iter::repeat(""));
        lines
            .zip(names)
            .map(|(line, name)| format!("{name:<NAMES$}{line}"))
    });
    lines.collect()
}

fn of_holder(holder: &Holder, now: SystemTime) -> Vec<(&'static str, String)> {
    let mut properties = vec![("holder", text::holder(holder))];
    properties.extend(since(holder.since, now));
    let expires = holder.expires_in;
    let expires = expires.map_or_else(|| "no known end".to_owned(), text::span);
    properties.push(("  expires in", expires));
    if let Some(fence) = holder.fence {
        properties.push(("  fence", fence.get().to_string()));
    }
    if let Some(nodes) = holder.nodes {
        properties.push(("  on nodes", nodes.to_string()));
    }
    properties
}

/// Returns the property `for` of a holder or a waiting process, with the duration since `time`.
/// `None` if `time` is unknown.
fn since(time: Option<SystemTime>, now: SystemTime) -> Option<(&'static str, String)> {
    let span = text::since(time, now).map(text::span)?;
    let time = humantime::format_rfc3339_seconds(time?);
    Some(("  for", format!("{span}, since {time}")))
}

/// Describes a lock in one line, without the values that change all the time.
pub(super) fn in_one_line(lock: &LockInfo) -> String {
    let mut line = format!("{}  {}", text::plain(&lock.key), text::kind(lock));
    for holder in &lock.holders {
        line.push_str("  ");
        line.push_str(&text::holder(holder));
        if let Some(fence) = holder.fence {
            line.push_str(", fence ");
            line.push_str(&fence.get().to_string());
        }
    }
    if !lock.waiting.is_empty() {
        let waiting = lock.waiting.len();
        line = format!("{line}  {waiting} waiting");
    }
    line
}
